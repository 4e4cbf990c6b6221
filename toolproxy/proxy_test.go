package toolproxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// runner is a Runner made of a func.
type runner func(ctx context.Context, c *wire.Copy, req *wire.Request, sink wire.Sink) (*wire.Result, error)

func (r runner) Call(ctx context.Context, c *wire.Copy, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	return r(ctx, c, req, sink)
}

// value answers with a value.
func value(context.Context, *wire.Copy, *wire.Request, wire.Sink) (*wire.Result, error) {
	return &wire.Result{Call: []byte(`{"ok":true,"value":5}`), Outcome: wire.OK, SandboxID: "sb-1", Stdout: "out", Warm: true}, nil
}

func newProxy(t *testing.T, r runner, change ...func(*Options)) *Proxy {
	t.Helper()
	o := Options{Runner: r, Policy: Policy{Mode: Enforce, MaxTimeout: 300 * time.Second}, Logger: hclog.NewNullLogger(), Registry: prometheus.NewRegistry()}
	for _, f := range change {
		f(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serve calls a path and returns the answer's body, or its error.
func serve(t *testing.T, ctx context.Context, p *Proxy, path, body string) (string, *api.Error) {
	t.Helper()
	for _, at := range p.Paths() {
		if at.Path != path {
			continue
		}
		rc := &fasthttp.RequestCtx{}
		goOn, err := at.Serve(ctx, rc, []byte(body))
		if err != nil {
			return "", err
		}
		if goOn == nil {
			return string(rc.Response.Body()), nil
		}
		var b bytes.Buffer
		w := bufio.NewWriter(&b)
		goOn(w)
		_ = w.Flush()
		return b.String(), nil
	}
	t.Fatalf("no path %s", path)
	return "", nil
}

const bootJSON = `{"boot_id":"b1","pid":7,"container":"main","python":{"executable":"/venv/bin/python","prefix":"/venv","base_prefix":"/usr","flags":["-O"]},
"main":{"kind":"path","path":"/app/main.py","name":""},"cwd":"/app","argv0":"main.py","sys_path":["/app","/venv/lib"],
"env":{"values":{"LANG":"C","CODE_SANDBOX_TOKEN":"t","LD_PRELOAD":"/evil.so","PYTHONPATH":"/x"},"names":{"KEY":{"shape":"opaque"}}},
"tools":[{"tool":"add","framework":"f","module":"m","qualname":"add","line":1,"decision":"sandboxed"}],
"frameworks":[{"name":"f","version":"1","state":"patched"}]}`

const callJSON = `{"id":"1","boot_id":"b1","tool":"add","framework":"f","target":{"qualname":"add","module":"m"},"args":[2],"kwargs":{"b":3},"stream":false,"timeout_seconds":null}`

func hello(t *testing.T, p *Proxy) {
	t.Helper()
	if _, err := serve(t, t.Context(), p, "/v1/tools/hello", bootJSON); err != nil {
		t.Fatal(err)
	}
}

func TestHello(t *testing.T) {
	p := newProxy(t, value, func(o *Options) {
		o.Policy.Exclude, o.Policy.Timeout = []string{"x*"}, 30*time.Second
	})
	got, err := serve(t, t.Context(), p, "/v1/tools/hello", bootJSON)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"mode":"enforce","policy":{"exclude":["x*"],"timeout_seconds":30},"limits":{"args_bytes":4194304,"result_bytes":8388608,"depth":64,"nodes":200000,"max_seconds":300}}`
	if strings.TrimSpace(got) != want {
		t.Errorf("the answer is %s", got)
	}
	f := func(from, to string) {
		t.Helper()
		if _, err := serve(t, t.Context(), p, "/v1/tools/hello", strings.Replace(bootJSON, from, to, 1)); err == nil || err.Code != api.BadRequest || err.Executed != api.No {
			t.Errorf("%v", err)
		}
	}
	// No id, a program that is no path, flags that would start something else.
	f(`"b1"`, `""`)
	f(`/venv/bin/python`, `python`)
	f(`"-O"`, `"-c"`)
	f(`"-O"`, `"-Ximporttime"`)
	// A container's name that is none.
	f(`"main"`, `"a/b"`)
	// No JSON, and JSON that nests too deeply.
	f(`{`, `[`)
	f(`"main.py"`, strings.Repeat("[", 300)+strings.Repeat("]", 300))
}

// The copy is made of the boot record: environment by allow-list, paths, target.
func TestCallMakesTheCopy(t *testing.T) {
	var got *wire.Copy
	var req *wire.Request
	p := newProxy(t, func(ctx context.Context, c *wire.Copy, r *wire.Request, s wire.Sink) (*wire.Result, error) {
		got, req = c, r
		return value(ctx, c, r, s)
	})
	hello(t, p)
	answer, err := serve(t, t.Context(), p, "/v1/tools/call", callJSON)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"ok":true,"value":5,"stdout":"out","stderr":"","sandbox_id":"sb-1","warm":true,"timing":{"queue_ms":0,"claim_ms":0,"run_ms":0}}`; strings.TrimSpace(answer) != want {
		t.Errorf("the answer is %s", answer)
	}
	if fmt.Sprint(got.Env) != "map[LANG:C]" || got.Container != "main" || got.Python != "/venv/bin/python" || fmt.Sprint(got.Prefixes, got.Program, got.Flags) != "[/venv /usr] [/app /venv/lib /app/main.py] [-O]" {
		t.Errorf("the copy is %+v", got)
	}
	if string(got.Target) != `{"module":"m","qualname":"add"}` {
		t.Errorf("the target is %s", got.Target)
	}
	var sent frame
	if json.Unmarshal(req.Call, &sent) != nil || sent.Op != "call" || len(sent.Args) != 1 || string(sent.Kwargs["b"]) != "3" || req.TimeoutSeconds != 300 {
		t.Errorf("the call is %s for %g s", req.Call, req.TimeoutSeconds)
	}
	// Two calls of one function share their copies, whatever the spelling.
	first := got.Key()
	if _, err := serve(t, t.Context(), p, "/v1/tools/call", strings.Replace(callJSON, `{"qualname":"add","module":"m"}`, `{ "module":"m", "qualname":"add" }`, 1)); err != nil || got.Key() != first {
		t.Errorf("another copy for the same function: %v", err)
	}
}

// T20: whatever goes wrong is an error that says whether the tool may have run.
func TestCallFails(t *testing.T) {
	ends := func(res *wire.Result, err error) runner {
		return func(context.Context, *wire.Copy, *wire.Request, wire.Sink) (*wire.Result, error) { return res, err }
	}
	f := func(r runner, body string, code api.Code, executed api.Executed, says string) {
		t.Helper()
		p := newProxy(t, r)
		hello(t, p)
		_, err := serve(t, t.Context(), p, "/v1/tools/call", body)
		if err == nil || err.Code != code || err.Executed != executed || !strings.Contains(err.Message, says) {
			t.Errorf("%+v", err)
		}
	}
	// The caller's mistakes.
	f(value, `{`, api.BadRequest, api.No, "cannot read the call")
	f(value, strings.Replace(callJSON, `"b1"`, `"b2"`, 1), api.NotFound, api.No, "hello")
	f(value, strings.Replace(callJSON, `{"qualname":"add","module":"m"}`, `"add"`, 1), api.BadRequest, api.No, "target")
	f(value, strings.Replace(callJSON, `[2]`, `[`+strings.Repeat("[", 300)+strings.Repeat("]", 300)+`]`, 1), api.BadRequest, api.No, "deeper")
	// The pool's word goes on as it is.
	f(ends(nil, api.Errorf(api.NoCapacity, "the pool is down")), callJSON, api.NoCapacity, api.No, "the pool is down")
	f(ends(nil, api.Errorf(api.Unsandboxable, "why").Because("state")), callJSON, api.Unsandboxable, api.No, "why")
	f(ends(nil, fmt.Errorf("plain")), callJSON, api.Internal, api.Maybe, "plain")
	f(ends(nil, nil), callJSON, api.Internal, api.Maybe, "without a result")
	// Ends without a word of the copy.
	f(ends(&wire.Result{Outcome: wire.Timeout}, nil), callJSON, api.Timeout, api.Maybe, "too long")
	f(ends(&wire.Result{Outcome: wire.OutOfMemory, Reason: "memory"}, nil), callJSON, api.SandboxLost, api.Maybe, "memory")
	f(ends(&wire.Result{Outcome: wire.OK, Call: []byte("[]")}, nil), callJSON, api.Internal, api.Maybe, "encode")
}

// The queue is bounded, and a call that is refused leaves no trace in it.
func TestCallsInFlight(t *testing.T) {
	var begun atomic.Int32
	release := make(chan struct{})
	p := newProxy(t, func(ctx context.Context, c *wire.Copy, r *wire.Request, s wire.Sink) (*wire.Result, error) {
		begun.Add(1)
		<-release
		return value(ctx, c, r, s)
	}, func(o *Options) { o.MaxCalls = 1 })
	hello(t, p)
	done := make(chan *api.Error)
	go func() {
		_, err := serve(t, t.Context(), p, "/v1/tools/call", callJSON)
		done <- err
	}()
	for begun.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := serve(t, t.Context(), p, "/v1/tools/call", callJSON); err == nil || err.Code != api.Busy || err.Executed != api.No {
		t.Errorf("%v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := serve(t, t.Context(), p, "/v1/tools/call", callJSON); err != nil {
		t.Error(err)
	}
}

// Only so many processes are remembered; one that is forgotten says hello again.
func TestBootsAreBounded(t *testing.T) {
	p := newProxy(t, value, func(o *Options) { o.MaxBoots = 2 })
	for _, id := range []string{"b1", "b2", "b3"} {
		if _, err := serve(t, t.Context(), p, "/v1/tools/hello", strings.Replace(bootJSON, `"b1"`, `"`+id+`"`, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := serve(t, t.Context(), p, "/v1/tools/call", callJSON); err == nil || err.Code != api.NotFound {
		t.Errorf("%v", err)
	}
	if n := testutil.ToFloat64(p.metrics.boots); n != 3 {
		t.Errorf("%g boots were counted", n)
	}
}

func TestListAndUse(t *testing.T) {
	p := newProxy(t, value)
	hello(t, p)
	hello(t, p) // once more: nothing is there twice
	if _, err := serve(t, t.Context(), p, "/v1/tools/call", callJSON); err != nil {
		t.Fatal(err)
	}
	got, err := serve(t, t.Context(), p, "/v1/tools", "")
	var list struct {
		Tools []Tool
		Boots []Boot
	}
	if err != nil || json.Unmarshal([]byte(got), &list) != nil || len(list.Tools) != 1 || list.Tools[0].Tool != "add" || len(list.Boots) != 1 || list.Boots[0].PID != 7 {
		t.Errorf("%s %v", got, err)
	}
	used := p.Used()
	if len(used) != 1 || used[0].Calls != 1 || used[0].Warm != 1 || used[0].Failed != 0 {
		t.Errorf("%+v", used)
	}
	if n := testutil.ToFloat64(p.metrics.calls.WithLabelValues("ok")); n != 1 {
		t.Errorf("%g calls were counted", n)
	}
}

// Nothing of a call's arguments or its result is in the log.
func TestLogIsDiscreet(t *testing.T) {
	var log bytes.Buffer
	p := newProxy(t, func(ctx context.Context, c *wire.Copy, r *wire.Request, s wire.Sink) (*wire.Result, error) {
		res, err := value(ctx, c, r, s)
		res.Call = []byte(`{"ok":true,"value":"TOP"}`)
		return res, err
	}, func(o *Options) { o.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Trace}) })
	hello(t, p)
	if _, err := serve(t, t.Context(), p, "/v1/tools/call", strings.Replace(callJSON, `[2]`, `["TOP"]`, 1)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "tool call ended") || strings.Contains(log.String(), "TOP") {
		t.Errorf("the log says %s", log.String())
	}
}

func TestPolicy(t *testing.T) {
	f := func(p Policy, asked float64, want time.Duration) {
		t.Helper()
		if got := p.timeout(asked); got != want {
			t.Errorf("%v", got)
		}
	}
	long, short := Policy{MaxTimeout: time.Minute}, Policy{MaxTimeout: time.Minute, Timeout: time.Second}
	// The policy's word stands over the caller's.
	f(long, 0, time.Minute)
	f(long, 5, 5*time.Second)
	f(long, 1e9, time.Minute)
	f(short, 0, time.Second)
	f(short, 5, time.Second)
	f(short, 0.5, 500*time.Millisecond)
	for _, bad := range []Policy{{}, {Mode: "x", MaxTimeout: 1}, {Mode: Enforce}, {Mode: Enforce, MaxTimeout: 1, Context: "x"}, {Mode: Enforce, MaxTimeout: 1, Exclude: []string{"["}}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
