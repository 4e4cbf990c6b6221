package sidecar

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func TestNew(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f := func(change func(*Options), want string) {
		t.Helper()
		o := Options{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Runner: fake(echo), Limits: DefaultLimits(),
			Logger: hclog.NewNullLogger(), Registry: prometheus.NewRegistry()}
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// Ports: taken, and none at all. The error names the flag.
	f(func(o *Options) { o.Listen = taken.Addr().String() }, "--listen 127.0.0.1:")
	f(func(o *Options) { o.Listen = taken.Addr().String() }, "take a port that is free, such as --listen 127.0.0.1:")
	f(func(o *Options) { o.AdminListen = taken.Addr().String() }, "such as --admin-listen 127.0.0.1:")
	// Both: each is told, so that the next try need not find out.
	both := func(o *Options) { o.Listen, o.AdminListen = taken.Addr().String(), taken.Addr().String() }
	f(both, "such as --listen 127.0.0.1:")
	f(both, "such as --admin-listen 127.0.0.1:")
	f(func(o *Options) { o.Listen = "nowhere" }, "--listen nowhere")
	// Limits that cannot be.
	f(func(o *Options) { o.Limits = Limits{} }, "request.code_bytes must be more than 0")
	f(func(o *Options) { o.Limits.Request.DefaultTimeout = 301 }, "must not be over the longest")
	f(func(o *Options) { o.Limits.Server.BodiesBytes = 1 }, "bodies_in_flight_bytes")
	// What is missing.
	f(func(o *Options) { o.Runner = nil }, "without a Runner")
	f(func(o *Options) { o.Drain = -1 }, "negative Drain")
}

func TestAdmin(t *testing.T) {
	var notReady error
	s := start(t, echo, func(o *Options) { o.Ready = func() error { return notReady } })
	f := func(path string, status int, want string) {
		t.Helper()
		// The node asks by an address of its own: there is no Host to know.
		r := do(t, "GET", s.admin+path, nil, "Host", "10.1.2.3:8902")
		if r.status != status || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	f("/healthz", 200, "ok")
	f("/readyz", 200, "ok")
	f("/metrics", 200, "code_sandbox_sidecar_in_flight 0")
	f("/run_python", 404, "GET /metrics")
	notReady = errors.New("the pool does not answer")
	f("/readyz", 503, "not ready: the pool does not answer")
	f("/healthz", 200, "ok")
	if r := do(t, "POST", s.admin+"/nope", strings.NewReader("x")); r.status != 404 || !strings.Contains(r.body, "there is no") {
		t.Errorf("POST of a path that is not there: %d %s", r.status, r.body)
	}
	if r := do(t, "POST", s.admin+"/metrics", strings.NewReader("x")); r.status != 405 {
		t.Error(r)
	}
}

// The drain in words: not ready, no new runs, the runs in flight finish.
func TestDrain(t *testing.T) {
	open := make(chan struct{})
	s := start(t, func(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		<-open
		return echo(ctx, req, sink)
	})
	running := make(chan reply, 1)
	go func() {
		r, err := try(client(t), "POST", s.url+"/run_python", strings.NewReader(`{"code":"x"}`), "Content-Type", "application/json", "Idempotency-Key", "k")
		if err != nil {
			t.Error(err)
		}
		running <- r
	}()
	eventually(t, "a run in flight", func() bool { return s.gate.inFlight() == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	eventually(t, "draining", s.gate.closed)
	if r := do(t, "GET", s.admin+"/readyz", nil); r.status != 503 {
		t.Error(r)
	}
	r := post(t, s, `{"code":"x"}`)
	if e := r.error(t); e.Code != api.NoCapacity || !e.Retry || e.Executed != api.No || r.header.Get("Retry-After") == "" {
		t.Error(e)
	}
	// A retry of what runs is refused too, but nobody may think it did not run.
	if e := post(t, s, `{"code":"x"}`, "Idempotency-Key", "k").error(t); e.Code != api.NoCapacity || e.Executed != api.Maybe {
		t.Error(e)
	}
	close(open)
	if r := <-running; r.status != 200 {
		t.Error(r)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("the port is open still")
	}
}

// inFlight sends a run, and returns when it is in flight.
func (s *testServer) inFlight(t *testing.T) <-chan reply {
	t.Helper()
	running := make(chan reply, 1)
	go func() {
		r, err := try(client(t), "POST", s.url+"/run_python", strings.NewReader(`{"code":"x"}`), "Content-Type", "application/json")
		if err != nil {
			t.Error(err)
		}
		running <- r
	}()
	eventually(t, "a run in flight", func() bool { return s.gate.inFlight() == 1 })
	return running
}

// Connections that never sent a request hold nothing up.
func TestSilentConnections(t *testing.T) {
	s := start(t, echo)
	for _, a := range []net.Addr{s.Addr(), s.AdminAddr()} {
		c, err := net.Dial("tcp", a.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	eventually(t, "both open", func() bool {
		return s.api.GetOpenConnectionsCount() == 1 && s.Server.admin.GetOpenConnectionsCount() == 1
	})
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// Runs that outlive the drain are ended, and their callers told.
func TestDrainDeadline(t *testing.T) {
	s := start(t, forever, func(o *Options) { o.Drain = 50 * time.Millisecond })
	running := s.inFlight(t)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if e := (<-running).error(t); e.Code != api.NoCapacity || e.Executed != api.Maybe {
		t.Error(e)
	}
}

// Who is told to hurry does not wait for the drain's deadline.
func TestDrainInAHurry(t *testing.T) {
	hurry := make(chan struct{})
	s := start(t, forever, func(o *Options) { o.Drain, o.Hurry = time.Hour, hurry })
	running := s.inFlight(t)
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	eventually(t, "draining", s.gate.closed)
	close(hurry)
	if e := (<-running).error(t); e.Code != api.NoCapacity || e.Executed != api.Maybe || !strings.Contains(e.Message, "shut down before the run had ended") {
		t.Error(e)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// What never becomes a request is answered in JSON too.
func TestMalformed(t *testing.T) {
	s := start(t, echo, func(o *Options) { o.Limits.Server.Read = 0.3; o.Limits.Server.Connections = 2 })
	f := func(send string, status int, want string) {
		t.Helper()
		c := dial(t, s)
		defer c.Close()
		if _, err := io.WriteString(c, send); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		r := reply{res.StatusCode, res.Header, string(b)}
		if e := r.error(t); r.status != status || !strings.Contains(e.Message, want) {
			t.Errorf("got %+v, want %d %q", r, status, want)
		}
	}
	f("what?\r\n\r\n", 400, "not well-formed")
	f("GET / HTTP/x\r\nHost: localhost\r\n\r\n", 400, `unsupported http version "HTTP/x"`)
	f("G(T / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "unsupported http request method")
	f("GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "not well-formed")
	f("GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "not well-formed")
	f("POST /run_python HTTP/1.1\r\nHost: localhost\r\nA : b\r\n\r\n", 400, "invalid header key")
	f("POST /run_python HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400, "not well-formed")
	f("POST /run_python HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n1", 400, "duplicate content-length")
	f("POST /run_python HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 400, "transfer-encoding")
	f("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400, "too many host headers")
	// A method that nothing here has.
	f("BREW /run_python HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "POST, not with BREW")
	f("GET / HTTP/1.1\r\nHost: localhost\r\nA: "+strings.Repeat("x", 20_000)+"\r\n\r\n", 413, "16384")
	// A request that dribbles in is given up (slow loris).
	f("POST /run_python HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", 400, "did not arrive within 0.3 s")
	f("POST /run_python HTTP/1.1\r\nHo", 400, "did not arrive within 0.3 s")
	f("POST /run_python HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 70_000), 400, "did not arrive whole")
	f("POST /run_python HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "did not arrive whole")
	// One connection too many is told so.
	dial(t, s)
	dial(t, s)
	eventually(t, "both are open", func() bool { return s.api.GetOpenConnectionsCount() == 2 })
	f("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 429, "more than 2 connections")
}

// Connections far over the limit are refused in JSON as well.
func TestWall(t *testing.T) {
	s := start(t, echo, func(o *Options) { o.Limits.Server.Connections = 2 })
	full := 2 + spareConnections
	for range full {
		dial(t, s)
	}
	eventually(t, "all are open", func() bool { return int(s.api.GetOpenConnectionsCount()) == full })
	c := dial(t, s)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	e := reply{res.StatusCode, res.Header, string(b)}.error(t)
	if e.Code != api.Busy || e.Executed != api.No || res.Header.Get("Retry-After") != "1" || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %+v %v", e, res.Header)
	}
}

// A server that is told to stop before it serves still stops.
func TestRunIsGivenUpAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		s, err := New(Options{
			Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Limits: DefaultLimits(), Logger: hclog.NewNullLogger(),
			Registry: prometheus.NewRegistry(), Runner: fake(nil),
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it does not stop")
		}
	}
}
