package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/server"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A run through client, TLS, server and pool: output while it is written, the
// result, and what is told of it.
func TestRun(t *testing.T) {
	s := start(t, func(_ context.Context, _ *pooltest.FakeSandbox, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		if sink != nil {
			sink(wire.Stdout, "a<b&")
			sink(wire.Stderr, "\u2028c\x00")
		}
		return &wire.Result{Stdout: "a<b&", Outcome: wire.OK, StdoutBytes: 4}, nil
	})
	c := s.caller(t, "good")
	var heard []string
	ctx := api.WithTrace(t.Context(), api.Trace{RequestID: "request-1"})
	res, err := c.Run(ctx, &wire.Request{Code: "secret code"}, func(to wire.Stream, text string) { heard = append(heard, string(to)+":"+text) })
	if err != nil || res.Stdout != "a<b&" || res.SandboxID == "" || res.RunID == "" {
		t.Fatal(res, err)
	}
	if strings.Join(heard, "|") != "stdout:a<b&|stderr:\u2028c\x00" {
		t.Errorf("heard %q", heard)
	}
	// Nobody listens: the same result.
	second, err := c.Run(t.Context(), &wire.Request{Code: "x"}, nil)
	if err != nil || second.SandboxID == res.SandboxID {
		t.Error(second, err)
	}
	eventually(t, "two audit records", func() bool { return strings.Count(s.audit.String(), "\n") == 2 })
	var record map[string]any
	if err := json.NewDecoder(strings.NewReader(s.audit.String())).Decode(&record); err != nil {
		t.Fatal(err)
	}
	// printf 'secret code' | sha256sum
	for key, want := range map[string]any{"request_id": "request-1", "namespace": "agents", "caller": "a.1", "image": "python@sha256:1",
		"code_sha256": "90b82c0171bb58aa25ab53067f1933731150afd42e7bb827350b94f086635cf8", "outcome": "ok", "stdout_bytes": 4.0, "sandbox_id": res.SandboxID} {
		if record[key] != want {
			t.Errorf("%s is %v, want %v", key, record[key], want)
		}
	}
	if log := s.log.String(); strings.Contains(log, "secret code") || strings.Count(log, `"run ended"`) != 2 || !strings.Contains(log, "request-1") {
		t.Error(log)
	}
	if strings.Contains(s.audit.String(), "secret code") {
		t.Error("the audit record has the code")
	}
	s.metric(t, `code_sandbox_service_namespace_runs_total{namespace="agents",result="result"} 2`)
	s.metric(t, `code_sandbox_service_authentications_total{result="ok"} 2`)
	s.metric(t, `code_sandbox_service_outcomes_total{outcome="ok"} 2`)
	s.metric(t, `code_sandbox_service_requests_total{code="ok"} 2`)
}

func (s *service) admin(t testing.TB, path string) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + s.AdminAddr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func (s *service) metric(t testing.TB, line string) {
	t.Helper()
	if _, all := s.admin(t, "/metrics"); !strings.Contains(all, line+"\n") {
		t.Errorf("there is no %s in the metrics", line)
	}
}

func TestRefusals(t *testing.T) {
	s := start(t, nil, func(o *server.Options) { o.Limits.BodyBytes = 4096 })
	const run = `{"request":{"code":"x"}}`
	f := func(method, path, token, body string, want api.Code, headers ...string) {
		t.Helper()
		status, head, text := s.raw(t, method, path, token, body, headers...)
		var got api.Failure
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Error.Code != want || status != api.Codes()[want] || got.Error.Executed != api.No {
			t.Errorf("%d %s", status, text)
		}
		if (want == api.NoCapacity) != (head.Get("Retry-After") != "") {
			t.Errorf("Retry-After is %q", head.Get("Retry-After"))
		}
	}
	// Who: no token, a bad one, and one that cannot be verified now.
	f("POST", api.RunsPath, "", run, api.Unauthenticated)
	f("POST", api.RunsPath, "bad", run, api.Unauthenticated)
	f("POST", api.RunsPath, strings.Repeat("x", 20000), run, api.Unauthenticated)
	f("POST", api.RunsPath, "slow", run, api.NoCapacity)
	f("GET", api.LimitsPath, "bad", "", api.Unauthenticated)
	// Where.
	f("POST", "/", "good", run, api.NotFound)
	f("GET", api.RunsPath, "good", "", api.MethodNotAllowed)
	// What: no body, too much, no JSON, a field of a later version, two bodies, no request.
	f("POST", api.RunsPath, "good", "", api.BadRequest)
	f("POST", api.RunsPath, "good", `{"request":{"code":"`+strings.Repeat("x", 5000)+`"}}`, api.TooLarge)
	f("POST", api.RunsPath, "good", "print(1)", api.BadRequest)
	f("POST", api.RunsPath, "good", `{"request":{"code":"x","gpu":true}}`, api.BadRequest)
	f("POST", api.RunsPath, "good", run+run, api.BadRequest)
	f("POST", api.RunsPath, "good", `{}`, api.BadRequest)
	// Time: a header that is none, and a timeout over the longest.
	f("POST", api.RunsPath, "good", run, api.BadRequest, api.DeadlineHeader, "soon")
	f("POST", api.RunsPath, "good", run, api.BadRequest, api.DeadlineHeader, "-5")
	f("POST", api.RunsPath, "good", `{"request":{"code":"x","timeout_seconds":61}}`, api.BadRequest)
	s.metric(t, `code_sandbox_service_authentications_total{result="unauthenticated"} 4`)
	s.metric(t, `code_sandbox_service_authentications_total{result="no_capacity"} 1`)
}

// until runs until its context ends, and says so.
func until(ended chan<- error) pooltest.RunFunc {
	return func(ctx context.Context, _ *pooltest.FakeSandbox, _ *wire.Request, sink wire.Sink) (*wire.Result, error) {
		if sink != nil {
			sink(wire.Stdout, "begun")
		}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}
}

// A client that hangs up ends its run, with and without output before.
func TestHangUp(t *testing.T) {
	ended, begun := make(chan error, 1), make(chan struct{}, 1)
	untilEnded := until(ended)
	s := start(t, func(ctx context.Context, b *pooltest.FakeSandbox, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		begun <- struct{}{}
		return untilEnded(ctx, b, req, sink)
	})
	c := s.caller(t, "good")
	f := func(sink wire.Sink) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-begun
			cancel()
		}()
		_, err := c.Run(ctx, &wire.Request{Code: "x"}, sink)
		if e := api.From(err); e.Code != api.Timeout || e.Executed != api.Maybe {
			t.Error(err)
		}
		select {
		case <-ended:
		case <-time.After(time.Second):
			t.Error("the run goes on a second after its client has left")
		}
	}
	f(nil)
	f(func(wire.Stream, string) {})
}

// The pool's deadline is within the client's: it is the pool that answers.
func TestDeadline(t *testing.T) {
	ended := make(chan error, 1)
	s := start(t, until(ended))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := s.caller(t, "good").Run(ctx, &wire.Request{Code: "x"}, nil)
	if e := api.From(err); e.Code != api.Timeout || e.Executed != api.Maybe || ctx.Err() != nil || !strings.Contains(e.Message, "the client's deadline has passed") {
		t.Error(err, ctx.Err())
	}
	<-ended
}

func TestLimits(t *testing.T) {
	ended := make(chan error, 8)
	s := start(t, until(ended), func(o *server.Options) {
		o.Limits.CallerRuns, o.Limits.NamespaceRuns = 1, 2
		o.Limits.CallerBurst = 3
		o.Limits.CallerRate = 0.5
	})
	ctx, cancel := context.WithCancel(t.Context())
	good, other := s.caller(t, "good"), s.caller(t, "other")
	begun := make(chan struct{}, 1)
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = good.Run(ctx, &wire.Request{Code: "x"}, func(wire.Stream, string) { begun <- struct{}{} })
	}()
	<-begun
	f := func(want string) {
		t.Helper()
		_, err := good.Run(t.Context(), &wire.Request{Code: "x"}, nil)
		if e := api.From(err); e.Code != api.Busy || e.Executed != api.No || e.RetryAfter < time.Second || !strings.Contains(e.Message, want) {
			t.Error(err)
		}
	}
	f("this agent has 1 runs in flight")
	f("this agent has 1 runs in flight")
	f("more than 0.5 runs a second")
	// Another caller is not bounded by this one's.
	short, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if _, err := other.Run(short, &wire.Request{Code: "x"}, nil); api.From(err).Code != api.Timeout {
		t.Error(err)
	}
	cancel()
	<-left
	s.metric(t, `code_sandbox_service_limited_total{limit="in_flight"} 2`)
	s.metric(t, `code_sandbox_service_limited_total{limit="rate"} 1`)
}

// The drain in words: not ready, new runs refused, the runs in flight finish.
func TestDrain(t *testing.T) {
	open, begun := make(chan struct{}), make(chan struct{}, 1)
	s := start(t, func(ctx context.Context, b *pooltest.FakeSandbox, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		begun <- struct{}{}
		<-open
		return &wire.Result{Outcome: wire.OK}, nil
	})
	if status, _ := s.admin(t, "/readyz"); status != 200 {
		t.Error(status)
	}
	running, stopped := make(chan error, 1), make(chan error, 1)
	c := s.caller(t, "good")
	go func() {
		_, err := c.Run(t.Context(), &wire.Request{Code: "x"}, nil)
		running <- err
	}()
	<-begun
	go func() { stopped <- s.stop() }()
	eventually(t, "not ready", func() bool { status, _ := s.admin(t, "/readyz"); return status == 503 })
	status, _, body := s.raw(t, "POST", api.RunsPath, "good", `{"request":{"code":"x"}}`)
	if status != 503 || !strings.Contains(body, api.Draining) || !strings.Contains(body, `"executed":"no"`) {
		t.Error(status, body)
	}
	close(open)
	if err := errors.Join(<-running, <-stopped); err != nil {
		t.Error(err)
	}
}

// Runs that outlive the drain are ended, and their callers told.
func TestDrainDeadline(t *testing.T) {
	ended := make(chan error, 1)
	s := start(t, until(ended), func(o *server.Options) { o.Drain = 50 * time.Millisecond })
	begun, running := make(chan struct{}, 1), make(chan error, 1)
	c := s.caller(t, "good")
	go func() {
		_, err := c.Run(t.Context(), &wire.Request{Code: "x"}, func(wire.Stream, string) { begun <- struct{}{} })
		running <- err
	}()
	<-begun
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if e := api.From(<-running); e.Executed != api.Maybe || !strings.Contains(e.Message, "shut down") {
		t.Error(e)
	}
}

// Connections that never sent a request hold nothing up: neither one that ended
// its handshake nor one that did not begin it, nor one to the admin port.
func TestSilentConnections(t *testing.T) {
	s := start(t, nil)
	for _, a := range []net.Addr{s.Addr(), s.Addr(), s.AdminAddr()} {
		c, err := net.Dial("tcp", a.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.ca)
	shaken, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "pool.test"})
	if err != nil {
		t.Fatal(err)
	}
	defer shaken.Close()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// A panic is an answer and a line in the log, and the next run is served.
func TestPanic(t *testing.T) {
	first := true
	s := start(t, func(context.Context, *pooltest.FakeSandbox, *wire.Request, wire.Sink) (*wire.Result, error) {
		if first {
			first = false
			panic("BUG: by the test")
		}
		return &wire.Result{Outcome: wire.OK}, nil
	})
	c := s.caller(t, "good")
	_, err := c.Run(t.Context(), &wire.Request{Code: "x"}, nil)
	if e := api.From(err); e.Code != api.Internal || e.Executed != api.Maybe {
		t.Error(err)
	}
	if _, err := c.Run(t.Context(), &wire.Request{Code: "x"}, nil); err != nil {
		t.Error(err)
	}
	s.metric(t, "code_sandbox_service_panics_total 1")
	if !strings.Contains(s.log.String(), "BUG: by the test") {
		t.Error(s.log.String())
	}
}

// Output that comes faster than it is read is not lost, and comes in order.
func TestMuchOutput(t *testing.T) {
	const pieces = 20000
	s := start(t, func(_ context.Context, _ *pooltest.FakeSandbox, _ *wire.Request, sink wire.Sink) (*wire.Result, error) {
		for i := range pieces {
			sink(wire.Stdout, strings.Repeat("x", 200)+string(rune('a'+i%26)))
		}
		return &wire.Result{Outcome: wire.OK}, nil
	})
	n := 0
	_, err := s.caller(t, "good").Run(t.Context(), &wire.Request{Code: "x"}, func(_ wire.Stream, text string) {
		if text[len(text)-1] != byte('a'+n%26) {
			t.Errorf("piece %d is out of order", n)
		}
		n++
	})
	if err != nil || n != pieces {
		t.Error(n, err)
	}
}
