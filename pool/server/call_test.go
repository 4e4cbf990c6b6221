package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/server"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A tool call reaches the one who chooses its sandbox with the caller's name
// and what the copy is made of, and its items and its word come back.
func TestCall(t *testing.T) {
	var got *api.RunBody
	var by pool.Caller
	s := start(t, func(_ context.Context, _ *pooltest.FakeSandbox, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		sink(wire.Item, "1")
		return &wire.Result{Outcome: wire.OK, Call: json.RawMessage(`{"ok":true,"value":` + string(req.Call) + `}`)}, nil
	}, func(o *server.Options) {
		choose := o.Template
		o.Template = func(ctx context.Context, c pool.Caller, body *api.RunBody) (pool.Template, error) {
			got, by = body, c
			return choose(ctx, c, body)
		}
	})
	program := &wire.Copy{Container: "app", Python: "/usr/bin/python3", Flags: []string{"-O"}, Prefixes: []string{"/usr"}, Program: []string{"/app"},
		Env: map[string]string{"LANG": "C"}, Boot: json.RawMessage(`{"cwd":"/app"}`), Target: json.RawMessage(`{"module":"m"}`)}
	var items string
	res, err := s.caller(t, "good").Call(t.Context(), program, &wire.Request{Call: json.RawMessage(`{"op":"call"}`)},
		func(_ wire.Stream, text string) { items += text })
	if err != nil || string(res.Call) != `{"ok":true,"value":{"op":"call"}}` || items != "1" {
		t.Fatalf("%+v, %v, items %q", res, err, items)
	}
	if got.Copy.Key() != program.Key() || by != (pool.Caller{Tenant: "agents", Name: "a.1"}) {
		t.Errorf("the copy is %+v, of %v", got.Copy, by)
	}
	// printf '{"module":"m"}' | sha256sum
	eventually(t, "the audit record", func() bool {
		return strings.Contains(s.audit.String(), `"image":"python@sha256:1","code_sha256":"f20c62dfbd33ada37557665e235ba13af2423271c534872c78f6340c768d0a9c"`)
	})
}

// A program with a copy, and a call without one, are refused before a sandbox is
// chosen.
func TestHalfCalls(t *testing.T) {
	s := start(t, nil)
	f := func(body string) {
		t.Helper()
		if status, _, answer := s.raw(t, "POST", api.RunsPath, "good", body); status != 400 {
			t.Errorf("%d: %s", status, answer)
		}
	}
	f(`{"request":{"code":"1","call":{"op":"call"}}}`)
	f(`{"request":{"code":"1"},"copy":{"python":"/usr/bin/python3"}}`)
	f(`{"request":{"code":""},"copy":{"image":"another"}}`)
}
