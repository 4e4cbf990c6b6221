package toolproxy

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// What a service learns later shortens calls, and never lengthens them.
func TestLongest(t *testing.T) {
	var longest time.Duration
	var got float64
	p := newProxy(t, func(_ context.Context, _ *wire.Copy, r *wire.Request, _ wire.Sink) (*wire.Result, error) {
		got = r.TimeoutSeconds
		return &wire.Result{Outcome: wire.OK, Call: []byte(`{"ok":true,"value":null}`)}, nil
	}, func(o *Options) { o.Longest = func() time.Duration { return longest } })
	f := func(now time.Duration, call string, want float64) {
		t.Helper()
		longest = now
		hello(t, p)
		if _, err := serve(t, t.Context(), p, "/v1/tools/call", call); err != nil || got != want {
			t.Errorf("the call may take %g s: %v", got, err)
		}
	}
	of := func(seconds string) string {
		return strings.Replace(callJSON, `{`, `{"timeout_seconds":`+seconds+`,`, 1)
	}
	// Not known yet; shorter than the policy's; longer.
	f(0, of("200"), 200)
	f(100*time.Second, of("200"), 100)
	f(100*time.Second, of("50"), 50)
	f(1000*time.Second, of("900"), 300)
}

// A hook that was never heard of is told of, and heard of once it is enough.
func TestHeard(t *testing.T) {
	p := newProxy(t, value)
	if err := p.Heard(); err == nil || !strings.Contains(err.Error(), "-I, -E or -S") || testutil.ToFloat64(p.metrics.heard) != 0 {
		t.Errorf("%v", err)
	}
	hello(t, p)
	if err := p.Heard(); err != nil || testutil.ToFloat64(p.metrics.heard) != 1 {
		t.Errorf("%v", err)
	}
}
