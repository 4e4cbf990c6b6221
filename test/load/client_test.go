package load

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestParseAnswer(t *testing.T) {
	f := func(raw, body string, whole bool, failure string) {
		t.Helper()
		b, w, err := parseAnswer([]byte(raw))
		if string(b) != body || w != whole || (err == nil) != (failure == "") || err != nil && !strings.Contains(err.Error(), failure) {
			t.Errorf("%q gives %q, %v, %v", raw, b, w, err)
		}
	}
	// Nothing yet, and half a head.
	f("", "", false, "")
	f("HTTP/1.1 200 OK\r\nContent-Le", "", false, "")
	// Half a body, then all of it.
	f("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", "", false, "")
	f("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd", "abcd", true, "")
	// A refusal.
	f("HTTP/1.1 429 Too Many\r\nContent-Length: 4\r\n\r\nbusy", "", true, "refused: busy")
	// No length.
	f("HTTP/1.1 200 OK\r\n\r\n", "", false, "has no length")
	f("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "", false, "length is")
}

const good = `{"sandbox_id":"same","stdout":"1\n","outcome":"ok","isolation":"namespaces"}`

// serve answers every request with body after a pause.
func serve(t *testing.T, body string, pause time.Duration) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pause)
		w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).String()
}

func TestOpenLoopCountsFromWhenARequestWasDue(t *testing.T) {
	// Ten requests a second, each takes 20 ms.
	sum, err := openLoop(serve(t, good, 20*time.Millisecond), printOne, 10, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if len(sum.times) != 5 || sum.err() != nil {
		t.Fatalf("%d runs, %v; want 5", len(sum.times), sum.err())
	}
	if fastest := Quantile(sum.times, 0); fastest < 20*time.Millisecond {
		t.Errorf("a run that takes 20 ms was measured as %s", fastest)
	}
	// One lane has to wait for its own slow answer: the wait counts.
	sum, err = openLoop(serve(t, good, 300*time.Millisecond), printOne, 320, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if slowest := Quantile(sum.times, 1); slowest < 450*time.Millisecond {
		t.Errorf("a request that was due while its lane waited was measured as %s", slowest)
	}
}

func TestClosedLoop(t *testing.T) {
	// A sandbox that ran twice shows.
	sum, err := closedLoop(serve(t, good, time.Millisecond), printOne, 2, time.Second/5)
	if err != nil {
		t.Fatal(err)
	}
	if len(sum.times) < 2 || sum.twice() != 1 {
		t.Errorf("%d runs, %d sandboxes used twice", len(sum.times), sum.twice())
	}
	// A wrong answer is an error, and so is one without isolation.
	for _, wrong := range []string{strings.Replace(good, `1\n`, `2\n`, 1), strings.Replace(good, "namespaces", "none", 1)} {
		sum, err = closedLoop(serve(t, wrong, time.Millisecond), printOne, 1, 10*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if len(sum.errs) == 0 || len(sum.times) != 0 {
			t.Errorf("%s was taken for a good answer", wrong)
		}
	}
}
