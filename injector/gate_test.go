package injector

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
)

// empty says whether nobody holds any of a gate.
func empty(g gate) bool {
	if !g.reviews.TryAcquire(maxReviews) {
		return false
	}
	defer g.reviews.Release(maxReviews)
	if !g.bytes.TryAcquire(maxReviewsBytes) {
		return false
	}
	g.bytes.Release(maxReviewsBytes)
	return true
}

func TestGate(t *testing.T) {
	g := newGate()
	for range maxReviews {
		if !g.reviews.TryAcquire(1) {
			t.Fatal("there is no room")
		}
	}
	if g.reviews.TryAcquire(1) {
		t.Error("there are more than the bound")
	}
	g.reviews.Release(1)
	if !g.reviews.TryAcquire(1) {
		t.Error("the room of one that has left is not used")
	}
	g.reviews.Release(maxReviews)
	// Bytes, to the last one.
	f := func(body *arriving, bytes int, want error) {
		t.Helper()
		body.Reader = strings.NewReader(strings.Repeat("x", bytes))
		if _, err := body.Read(make([]byte, bytes)); !errors.Is(err, want) {
			t.Errorf("it ends with %v", err)
		}
	}
	large, small := &arriving{gate: g}, &arriving{gate: g}
	f(large, maxReviewsBytes-1, nil)
	f(small, 2, errBusy)
	f(small, 1, nil)
	f(small, 1, errBusy)
	large.free()
	f(small, maxReviewsBytes-1, nil)
	f(small, 1, errBusy)
	small.free()
	if !empty(g) {
		t.Error("there are bytes that nobody holds")
	}
}

// Past the bound there is an answer at once, counted by its cause; those in flight
// are answered, and then there is room again.
func TestReviewsAreBounded(t *testing.T) {
	h, _ := newHandler(t)
	inside, release := make(chan struct{}), make(chan struct{})
	plainNamespace := h.namespace
	h.namespace = func(ctx context.Context, name string, fresh bool) (*corev1.Namespace, error) {
		inside <- struct{}{}
		<-release
		return plainNamespace(ctx, name, fresh)
	}
	body := review(t, agent(plain), nil)
	body = append(body, bytes.Repeat([]byte(" "), maxBody-len(body))...)
	var all sync.WaitGroup
	for range maxReviewsBytes / maxBody {
		all.Go(func() {
			if w := post(h, body); w.Code != 200 {
				t.Errorf("the answer is %d", w.Code)
			}
		})
		<-inside
	}
	if w := post(h, body); w.Code != 503 || !strings.Contains(w.Body.String(), "16 MiB of them are in flight") {
		t.Errorf("the answer is %d %s", w.Code, w.Body)
	}
	// A small one has no room either, and what none of it came of takes none.
	if w := post(h, review(t, agent(plain), nil)); w.Code != 503 {
		t.Errorf("the answer is %d", w.Code)
	}
	if w := post(h, nil); w.Code != 400 {
		t.Errorf("the answer is %d", w.Code)
	}
	if n := testutil.ToFloat64(h.metrics.failures.WithLabelValues(failBusy)); n != 2 {
		t.Errorf("%v are counted", n)
	}
	close(release)
	all.Wait()
	h.namespace = plainNamespace
	if !empty(h.gate) {
		t.Error("there are reviews or bytes that nobody holds")
	}
	// A panic leaves, too.
	h.config = func() (Config, error) { panic("oh") }
	for range maxReviews + 1 {
		post(h, review(t, agent(plain), nil))
	}
	h.config = func() (Config, error) { return testConfig(), nil }
	if w := post(h, body); w.Code != 200 {
		t.Errorf("the answer is %d", w.Code)
	}
}

// stuck sends the head of a review and some of its body, then no more.
func stuck(t *testing.T, address, body string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "POST /mutate HTTP/1.1\r\nHost: injector\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", maxBody, body); err != nil {
		t.Fatal(err)
	}
	return c
}

// Who says that much will come, and sends nothing or little, takes no place from
// others, and is told to go.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t)
	server := httptest.NewServer(h)
	defer server.Close()
	address := server.Listener.Addr().String()
	var slow []net.Conn
	for i := range maxReviews + 10 {
		slow = append(slow, stuck(t, address, strings.Repeat("{", i)))
	}
	for range 20 {
		resp, err := http.Post(server.URL+"/mutate", "application/json", bytes.NewReader(review(t, agent(plain), nil)))
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != 200 {
			t.Errorf("the answer is %d", resp.StatusCode)
		}
	}
	for _, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(5 * bodyBound))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); resp.StatusCode != 408 || string(said) != "the review did not come within 2s\n" || !resp.Close {
			t.Errorf("the answer is %d %s", resp.StatusCode, said)
		}
	}
	if n := testutil.ToFloat64(h.metrics.failures.WithLabelValues(failBody)); n != maxReviews+10 || !empty(h.gate) {
		t.Errorf("%v are counted, or bytes are held", n)
	}
}

// The time of the body is not that of the decision: once all of it has come, the
// server takes the deadline away.
func TestDecisionsOutliveTheDeadlineOfTheBody(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t)
	h.namespace = func(ctx context.Context, _ string, _ bool) (*corev1.Namespace, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(bodyBound + bodyBound/5):
			return enrolled(), nil
		}
	}
	server := httptest.NewServer(h)
	defer server.Close()
	resp, err := http.Post(server.URL+"/mutate", "application/json", bytes.NewReader(review(t, agent(plain), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != 200 {
		t.Errorf("the answer is %d", resp.StatusCode)
	}
}
