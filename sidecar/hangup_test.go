package sidecar

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// dial opens a connection of which the test decides every byte.
func dial(t testing.TB, s *testServer) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func raw(body string, headers ...string) string {
	return fmt.Sprintf("POST /run_python HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		len(body), strings.Join(headers, ""), body)
}

// watched counts the runs that go on, and tells when one ends.
func counting(inRun *atomic.Int64, slow string) fake {
	return func(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		if req.Code != slow {
			return echo(ctx, req, sink)
		}
		inRun.Add(1)
		defer inRun.Add(-1)
		return forever(ctx, req, sink)
	}
}

// R20: the run of a caller that hangs up is ended within a second.
func TestHangUp(t *testing.T) {
	var inRun atomic.Int64
	s := start(t, counting(&inRun, "slow"))
	f := func(send string, hangUp func(*net.TCPConn) error) {
		t.Helper()
		c := dial(t, s)
		if _, err := io.WriteString(c, send); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the run begins", func() bool { return inRun.Load() == 1 })
		time.Sleep(2 * pollEvery) // nothing happens by itself
		if inRun.Load() != 1 {
			t.Fatal("the run of a patient caller was ended")
		}
		at := time.Now()
		if err := hangUp(c); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the run is ended", func() bool { return inRun.Load() == 0 && s.gate.inFlight() == 0 })
		if took := time.Since(at); took > time.Second {
			t.Errorf("took %v", took)
		}
	}
	slow := raw(`{"code":"slow"}`)
	closing := (*net.TCPConn).Close
	// A plain close.
	f(slow, closing)
	// A reset.
	f(slow, func(c *net.TCPConn) error { c.SetLinger(0); return c.Close() })
	// Only the sending side is closed: that counts as gone too.
	f(slow, (*net.TCPConn).CloseWrite)
	// A pipelined second request, unread, does not hide the hang-up.
	f(slow+raw(`{"code":"fast"}`), closing)
	// Nor does much of one, more than any buffer of ours.
	f(slow+raw(`{"code":"`+strings.Repeat("x", 100_000)+`"}`), closing)
	// A streaming caller, before and after output.
	f(raw(`{"code":"slow"}`, "Accept: text/event-stream\r\n"), closing)
	// A caller with a key.
	f(raw(`{"code":"slow"}`, "Idempotency-Key: k\r\n"), closing)
	if got := scrape(t, s)["code_sandbox_sidecar_hangups_total"]; got != "7" {
		t.Errorf("%s hang-ups counted, want 7", got)
	}
}

// A pipelined request behind a run is neither lost nor mixed up.
func TestPipelining(t *testing.T) {
	s := start(t, func(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		time.Sleep(3 * pollEvery) // looked at while it waits
		return echo(ctx, req, sink)
	})
	c := dial(t, s)
	if _, err := io.WriteString(c, raw(`{"code":"one"}`)+raw(`{"code":"two"}`)+raw(`{}`)); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	next := func(status int, want string) {
		t.Helper()
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != status || !strings.Contains(string(b), want) || res.Close {
			t.Errorf("%d %s %v, want %d %s", res.StatusCode, b, err, status, want)
		}
	}
	next(200, `\"one\"`)
	next(200, `\"two\"`)
	next(400, `is missing`)
	// And the connection goes on.
	if _, err := io.WriteString(c, raw(`{"code":"three"}`)); err != nil {
		t.Fatal(err)
	}
	next(200, `\"three\"`)
}

// R20: nothing piles up over 200 hang-ups.
func TestManyHangUps(t *testing.T) {
	var inRun atomic.Int64
	s := start(t, counting(&inRun, "slow"))
	post(t, s, `{"code":"warm up"}`).result(t)
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			c, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			extra := ""
			if i%2 == 1 {
				extra = "Accept: application/x-ndjson\r\n"
			}
			if _, err := io.WriteString(c, raw(`{"code":"slow"}`, extra)); err != nil {
				t.Error(err)
			}
			eventually(t, "the run begins", func() bool { return inRun.Load() > 0 })
		})
	}
	all.Wait()
	eventually(t, "all is given back", func() bool {
		s.gone.mu.Lock()
		defer s.gone.mu.Unlock()
		// fasthttp keeps idle workers for some seconds; they are not ours.
		return inRun.Load() == 0 && s.gate.inFlight() == 0 && len(s.gone.conns) == 0 && s.api.GetOpenConnectionsCount() <= 1 // the warm-up client keeps its own
	})
	if got := scrape(t, s)["code_sandbox_sidecar_in_flight"]; got != "0" {
		t.Errorf("in flight: %s", got)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() < before })
}

// Keep-alive: one connection serves many answers of all kinds.
func TestKeepAlive(t *testing.T) {
	s := start(t, echo)
	c := dial(t, s)
	br := bufio.NewReader(c)
	for i := range 20 {
		body, accept := `{"code":"x"}`, ""
		switch i % 4 {
		case 1:
			body = `{"code":`
		case 2:
			accept = "Accept: text/event-stream\r\n"
		case 3:
			body = `{"code":"` + strings.Repeat("x", 2<<20) + `"}`
		}
		if _, err := io.WriteString(c, raw(body, accept)); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.Close {
			t.Fatalf("answer %d: %v, close %v", i, err, res.Close)
		}
	}
}
