package sidecar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func TestAnswer(t *testing.T) {
	value := "<b>&</b>"
	s := start(t, func(_ context.Context, _ *wire.Request, _ wire.Sink) (*wire.Result, error) {
		return &wire.Result{SandboxID: "sb-7", Stdout: "<a>&\x00\xff", Value: &value, ExitCode: 3, Outcome: wire.Failed}, nil
	})
	r := post(t, s, `{"code":"x"}`, "X-Request-Id", "mine-1")
	// No HTML escaping, valid UTF-8 always, NUL kept (R3); lists are never null.
	for _, want := range []string{`"stdout":"<a>&\u0000\ufffd"`, `"result":"<b>&</b>"`, `"denied":[]`, `"files":[]`, `"files_omitted":[]`, `"exit_code":3`, `"outcome":"error"`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s in %s", want, r.body)
		}
	}
	// The failure of a program is 200 (R18).
	if r.status != 200 || r.header.Get("X-Sandbox-Id") != "sb-7" || r.header.Get("X-Request-Id") != "mine-1" || r.header.Get("Content-Type") != "application/json" {
		t.Error(r.status, r.header)
	}
	// A request id is made where none, or no good one, was given.
	made := func(headers ...string) {
		t.Helper()
		a, b := post(t, s, `{"code":"x"}`, headers...).header.Get("X-Request-Id"), post(t, s, `{"code":"x"}`, headers...).header.Get("X-Request-Id")
		if len(a) != 24 || a == b {
			t.Errorf("made %q and %q", a, b)
		}
	}
	made()
	made("X-Request-Id", "a b")
	made("X-Request-Id", strings.Repeat("a", 129))
}

func TestTraceReachesTheRunner(t *testing.T) {
	var got api.Trace
	s := start(t, func(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		got = api.TraceOf(ctx)
		return echo(ctx, req, sink)
	})
	parent := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	before := time.Now()
	post(t, s, `{"code":"x"}`, "X-Request-Id", "r1", "traceparent", parent).result(t)
	if want := (api.Trace{RequestID: "r1", Traceparent: parent, Arrived: got.Arrived}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Arrived.Before(before) || got.Arrived.After(time.Now()) {
		t.Errorf("a request sent at %v came at %v", before, got.Arrived)
	}
}

// Every code of pool/api that a Runner may return arrives as it is.
func TestErrorsOfTheRunner(t *testing.T) {
	var next error
	s := start(t, func(context.Context, *wire.Request, wire.Sink) (*wire.Result, error) { return nil, next })
	f := func(err error, want, retryAfter string) {
		t.Helper()
		next = err
		r := post(t, s, `{"code":"x"}`)
		if r.body != want+"\n" || r.header.Get("Retry-After") != retryAfter || r.error(t) == nil {
			t.Errorf("got %q %q, want %q %q", r.body, r.header.Get("Retry-After"), want, retryAfter)
		}
	}
	for code := range api.Codes() {
		e := api.Errorf(code, "why <%s>", code)
		after := ""
		if code == api.Busy || code == api.NoCapacity {
			after = "1"
		}
		f(e, fmt.Sprintf(`{"error":{"code":%q,"message":"why <%s>","retryable":%v,"executed":"no"}}`, code, code, e.Retry), after)
	}
	// Retry-After is rounded up to whole seconds.
	f(api.Errorf(api.NoCapacity, "full").After(1500*time.Millisecond), `{"error":{"code":"no_capacity","message":"full","retryable":true,"executed":"no"}}`, "2")
	// Another error is internal, and nobody knows whether anything ran.
	f(errors.New("odd"), `{"error":{"code":"internal","message":"odd","retryable":false,"executed":"maybe"}}`, "")
	// So is a code that is none, and no result at all.
	f(&api.Error{Code: "odd", Message: "m"}, `{"error":{"code":"internal","message":"m","retryable":false,"executed":"maybe"}}`, "")
	f(nil, `{"error":{"code":"internal","message":"the run ended without a result","retryable":false,"executed":"maybe"}}`, "")
}

// The codes that are the sidecar's own; conflict, no_capacity and timeout have
// tests of their own.
func TestOwnErrors(t *testing.T) {
	s := start(t, echo)
	f := func(method, path, body string, code api.Code, want string, headers ...string) reply {
		t.Helper()
		r := do(t, method, s.url+path, strings.NewReader(body), headers...)
		if e := r.error(t); e.Code != code || !strings.Contains(e.Message, want) || e.Executed != api.No {
			t.Errorf("%s %s: got %+v, want %s with %q", method, path, e, code, want)
		}
		return r
	}
	// Another content type, none, and one with another charset.
	f("POST", "/run_python", `{"code":"x"}`, api.BadRequest, "must be application/json, or text/x-python", "Content-Type", "text/plain")
	f("POST", "/run_python", `{"code":"x"}`, api.BadRequest, "must be application/json, or text/x-python")
	f("POST", "/run_python", `x`, api.BadRequest, "it must be utf-8", "Content-Type", "text/x-python; charset=latin-1")
	f("POST", "/run_python", `x`, api.BadRequest, "Content-Encoding", "Content-Type", "text/x-python", "Content-Encoding", "gzip")
	// Another method.
	for method, allow := range map[string]string{"GET": "POST", "PUT": "POST", "OPTIONS": "POST", "DELETE": "POST"} {
		if r := f(method, "/run_python", "", api.MethodNotAllowed, "asked for with POST"); r.header.Get("Allow") != allow {
			t.Error(r.header)
		}
	}
	if r := f("POST", "/healthz", "", api.MethodNotAllowed, "asked for with GET"); r.header.Get("Allow") != "GET, HEAD" {
		t.Error(r.header)
	}
	// Another path: the answer lists what there is.
	f("POST", "/run", "", api.NotFound, "POST /run_python, GET /tool, POST /v1/run_python")
	f("GET", "/", "", api.NotFound, "GET /healthz")
	// A bad key.
	f("POST", "/run_python", `{"code":"x"}`, api.BadRequest, "Idempotency-Key", "Content-Type", "application/json", "Idempotency-Key", "a b")
	f("POST", "/run_python", `{"code":"x"}`, api.BadRequest, "Idempotency-Key", "Content-Type", "application/json", "Idempotency-Key", strings.Repeat("a", 256))
}

func TestBusy(t *testing.T) {
	s := start(t, forever, func(o *Options) { o.Limits.Server.Requests = 1; o.Limits.Server.BodiesBytes = 16 << 20 })
	hold, release := hold(t, s)
	r := post(t, s, `{"code":"x"}`)
	if e := r.error(t); e.Code != api.Busy || !e.Retry || r.header.Get("Retry-After") != "1" {
		t.Error(r)
	}
	release()
	<-hold
}

// hold keeps one run in flight until release; the channel is closed when its
// request is over.
func hold(t *testing.T, s *testServer) (over chan struct{}, release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over = make(chan struct{})
	go func() {
		defer close(over)
		c := client(t)
		req := newPost(ctx, s.url, `{"code":"held"}`)
		if res, err := c.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	eventually(t, "a run in flight", func() bool { return s.gate.inFlight() == 1 })
	return over, cancel
}

// A run whose Runner does not end in time is answered 504, by the deadline of
// the sidecar; the Runner says whether anything ran.
func TestTimeout(t *testing.T) {
	s := start(t, forever, func(o *Options) { o.Limits.Server.Wait = 0.2 })
	begun := time.Now()
	e := post(t, s, `{"code":"x","timeout_seconds":0.1}`).error(t)
	if e.Code != api.Timeout || e.Executed != api.Maybe || !e.Retry {
		t.Error(e)
	}
	if took := time.Since(begun); took < 300*time.Millisecond || took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestPanic(t *testing.T) {
	s := start(t, func(context.Context, *wire.Request, wire.Sink) (*wire.Result, error) { panic("oh") })
	e := post(t, s, `{"code":"x"}`).error(t)
	if e.Code != api.Internal || e.Executed != api.Maybe || strings.Contains(e.Message, "oh") {
		t.Error(e)
	}
	// And one in a handler itself.
	s.routes["/panics"] = route{method: "GET", handler: func(*fhCtx, *exchange) *api.Error { panic("oh") }}
	if e := do(t, "GET", s.url+"/panics", nil).error(t); e.Code != api.Internal {
		t.Error(e)
	}
	if got := scrape(t, s)["code_sandbox_sidecar_panics_total"]; got != "2" {
		t.Errorf("%s panics counted", got)
	}
}

func TestMetrics(t *testing.T) {
	s := start(t, echo)
	body := post(t, s, `{"code":"x"}`).body
	failed := post(t, s, `{}`).body
	got := scrape(t, s)
	for name, want := range map[string]string{
		`code_sandbox_sidecar_requests_total{code="ok"}`:          "1",
		`code_sandbox_sidecar_requests_total{code="bad_request"}`: "1",
		`code_sandbox_sidecar_request_seconds_count`:              "2",
		`code_sandbox_sidecar_answer_bytes_total`:                 fmt.Sprint(len(body) + len(failed)),
		`code_sandbox_sidecar_in_flight`:                          "0",
		`code_sandbox_sidecar_panics_total`:                       "0",
		`code_sandbox_sidecar_hangups_total`:                      "0",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}
