package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const boot = `{"boot_id":"b1","python":{"executable":"/usr/bin/python3"},"container":"main","cwd":"/app","tools":[{"tool":"add","decision":"sandboxed"}]}`

const toolCall = `{"id":"c1","boot_id":"b1","tool":"add","framework":"f","target":{"module":"m","qualname":"add"},"args":[1],"kwargs":{}}`

// called answers a tool call with what it was sent and how long it may take.
func called(req *wire.Request) *wire.Result {
	var sent struct {
		Args []json.RawMessage
	}
	if err := json.Unmarshal(req.Call, &sent); err != nil {
		return &wire.Result{Outcome: wire.Killed, Reason: err.Error()}
	}
	return &wire.Result{Outcome: wire.OK, SandboxID: "sb-1", Call: fmt.Appendf(nil, `{"ok":true,"value":[%s,%g]}`, sent.Args[0], req.TimeoutSeconds)}
}

// A tool call goes the whole way to the pool, within what the pool allows; when
// there is no pool, it fails and says that nothing ran (T20).
func TestToolCalls(t *testing.T) {
	cert, ca := pooltest.Certificate(t)
	address, token := freePort(t), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the token"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, pool, stop := startSidecar(t, address, token, ca, "--require-hook", "--tool-timeout", "600", "--tools-exclude", "x*")
	url, admin := "http://"+s.Addr().String(), "http://"+s.AdminAddr().String()
	// A process that was never heard of.
	if status, body := post(t, url+"/v1/tools/call", toolCall); status != 404 || !strings.Contains(body, `"executed":"no"`) {
		t.Error(status, body)
	}
	if status, body := post(t, url+"/v1/tools/hello", boot); status != 200 || !strings.Contains(body, `"mode":"enforce","policy":{"exclude":["x*"],"timeout_seconds":600}`) {
		t.Error(status, body)
	}
	// No pool: it waits for a second, as its flag says.
	began := time.Now()
	if status, body := post(t, url+"/v1/tools/call", strings.Replace(toolCall, `"id"`, `"timeout_seconds":2,"id"`, 1)); status != 503 ||
		!strings.Contains(body, `"executed":"no"`) || !strings.Contains(body, `"no_capacity"`) {
		t.Error(status, body)
	}
	if took := time.Since(began); took < 300*time.Millisecond || took > 3*time.Second {
		t.Errorf("refused after %v", took)
	}
	defer startPool(t, address, cert)()
	if err := pool.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, body := post(t, url+"/v1/tools/call", toolCall); status != 200 || !strings.HasPrefix(body, `{"ok":true,"value":[1,20],`) {
		t.Error(status, body)
	}
	if _, body := get(t, url+"/limits"); !strings.Contains(body, `"tools":{"mode":"enforce","calls_in_flight":64`) || !strings.Contains(body, `"max_timeout_seconds":20}`) {
		t.Error(body)
	}
	if _, body := get(t, url+"/v1/tools"); !strings.Contains(body, `"boot_id":"b1"`) {
		t.Error(body)
	}
	if _, body := get(t, admin+"/metrics"); !strings.Contains(body, "code_sandbox_tool_hook_heard 1") || !strings.Contains(body, `code_sandbox_tool_calls_total{outcome="ok"} 1`) {
		t.Error(body)
	}
	stop() // before its pool
}

// The pool's longest is asked for when a call comes before it is known.
func TestFirstCallIsShortened(t *testing.T) {
	cert, ca := pooltest.Certificate(t)
	address, token := freePort(t), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the token"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer startPool(t, address, cert)()
	o, err := parse([]string{"--pool", address, "--pool-name", "pool.test", "--pool-ca", string(ca), "--token-file", token, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	_, pool, err := build(o)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	req := &wire.Request{Call: []byte(`{"args":[7]}`), TimeoutSeconds: 300}
	res, err := calls{pool, time.Second}.Call(t.Context(), &wire.Copy{Python: "/usr/bin/python3"}, req, nil)
	if err != nil || string(res.Call) != `{"ok":true,"value":[7,20]}` {
		t.Errorf("%+v, %v", res, err)
	}
}

// With --require-hook the sidecar is ready once it has heard of the hook; the
// metric tells in any case.
func TestRequireHook(t *testing.T) {
	cert, ca := pooltest.Certificate(t)
	address, token := freePort(t), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the token"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer startPool(t, address, cert)()
	f := func(before int, flags ...string) {
		t.Helper()
		s, pool, stop := startSidecar(t, address, token, ca, flags...)
		defer stop()
		if err := pool.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		url, admin := "http://"+s.Addr().String(), "http://"+s.AdminAddr().String()
		if status, body := get(t, admin+"/readyz"); status != before || before == 503 && !strings.Contains(body, "Python was started with -I, -E or -S") {
			t.Errorf("%q: %d %s", flags, status, body)
		}
		if _, body := get(t, admin+"/metrics"); !strings.Contains(body, "code_sandbox_tool_hook_heard 0") {
			t.Errorf("%q: the hook counts as heard of", flags)
		}
		if status, body := post(t, url+"/v1/tools/hello", boot); status != 200 {
			t.Errorf("%q: %d %s", flags, status, body)
		}
		if status, body := get(t, admin+"/readyz"); status != 200 {
			t.Errorf("%q, after the hello: %d %s", flags, status, body)
		}
	}
	f(503, "--require-hook")
	f(200)
	f(200, "--require-hook", "--tools", "off")
}
