package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/server"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A copy that a sidecar tells of is made for it alone, and is warm at its first
// call; an agent whose pod is not known yet is asked for again.
func TestAhead(t *testing.T) {
	var asked atomic.Int32
	s := start(t, func(_ context.Context, _ *pooltest.FakeSandbox, req *wire.Request, _ wire.Sink) (*wire.Result, error) {
		return &wire.Result{Outcome: wire.OK, Call: req.Call}, nil
	}, func(o *server.Options) {
		choose := o.Template
		o.Template = func(ctx context.Context, c pool.Caller, body *api.RunBody) (pool.Template, error) {
			if asked.Add(1) == 1 {
				return pool.Template{}, api.Errorf(api.NoCapacity, "its status does not say which image it runs").After(time.Second)
			}
			template, err := choose(ctx, c, body)
			template.Owner, template.Copy, template.Warm = c, body.Copy, 1
			return template, err
		}
	})
	program := &wire.Copy{Python: "/usr/bin/python3", Boot: json.RawMessage(`{}`), Target: json.RawMessage(`{"module":"m"}`)}
	c := s.caller(t, "good")
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() { defer close(kept); c.Keep(ctx) }()
	defer func() { cancel(); <-kept }()
	c.Ahead(program)
	eventually(t, "the copy is warm, beside three others", func() bool { return s.Pool.Stats().Warm == 4 && asked.Load() == 2 })
	res, err := c.Call(t.Context(), program, &wire.Request{Call: json.RawMessage(`{"op":"call"}`)}, nil)
	if err != nil || !res.Warm {
		t.Errorf("%+v, %v", res, err)
	}
}

// Who may not run anything has no copies made, and what is no copy makes none.
func TestAheadRefusals(t *testing.T) {
	s := start(t, nil, func(o *server.Options) {
		choose := o.Template
		o.Template = func(ctx context.Context, c pool.Caller, body *api.RunBody) (pool.Template, error) {
			template, err := choose(ctx, c, body)
			template.Image, template.Copy, template.Warm = "agent@sha256:2", body.Copy, 1
			if c.Name == "b.2" {
				template.Owner = c
			}
			return template, err
		}
	})
	f := func(status int, token, body, says string) {
		t.Helper()
		if got, _, answer := s.raw(t, "POST", api.CopiesPath, token, body); got != status || !strings.Contains(answer, says) {
			t.Errorf("%d: %s", got, answer)
		}
	}
	f(401, "bad", `{"copy":{"python":"/p"}}`, "not good")
	f(400, "good", `{}`, `\"copy\" is missing`)
	f(400, "good", `{"copy":{"image":"another"}}`, "unknown field")
	f(400, "good", `{"copy":{}} more`, "more after its end")
	// A template without an owner is everybody's: nothing is made ahead of it.
	const made = "template added ahead"
	f(200, "good", `{"copy":{"python":"/p"}}`, "{}")
	if log := s.log.String(); strings.Contains(log, made) {
		t.Errorf("the log says %s", log)
	}
	f(200, "other", `{"copy":{"python":"/p"}}`, "{}")
	if log := s.log.String(); !strings.Contains(log, made) {
		t.Errorf("of a template with an owner, the log says %s", log)
	}
	eventually(t, "its copy is warm, beside three others", func() bool { return s.Pool.Stats().Warm == 4 })
}
