package pool_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	opts := pool.Options{Registerer: registry, Templates: []pool.Template{plain}, InFlightPerCaller: 1}
	run(t, opts, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		for range 2 {
			if _, err := b.Exec(ctx, alice, plain, second, nil); err != nil {
				t.Fatal(err)
			}
		}
		lease := b.claim(alice, plain)
		if _, err := b.Claim(ctx, alice, plain); err == nil {
			t.Error("the bound does not hold")
		}
		b.after(5 * time.Second)
		want := `
			# HELP code_sandbox_pool_claims_total Sandboxes claimed; cold ones waited for a start.
			# TYPE code_sandbox_pool_claims_total counter
			code_sandbox_pool_claims_total{start="cold"} 1
			code_sandbox_pool_claims_total{start="warm"} 2
			# HELP code_sandbox_pool_queue_depth Claims that wait for a sandbox.
			# TYPE code_sandbox_pool_queue_depth gauge
			code_sandbox_pool_queue_depth 0
			# HELP code_sandbox_pool_sandboxes Sandboxes in existence, by state.
			# TYPE code_sandbox_pool_sandboxes gauge
			code_sandbox_pool_sandboxes{state="destroying"} 0
			code_sandbox_pool_sandboxes{state="leased"} 1
			code_sandbox_pool_sandboxes{state="starting"} 0
			code_sandbox_pool_sandboxes{state="warm"} 3
		`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
			"code_sandbox_pool_claims_total", "code_sandbox_pool_queue_depth", "code_sandbox_pool_sandboxes"); err != nil {
			t.Error(err)
		}
		lease.Release()
	})
	text := gather(t, registry)
	f := func(line string) {
		t.Helper()
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	f(`code_sandbox_pool_runs_total{outcome="ok"} 2`)
	// A value that never came is there from the start.
	f(`code_sandbox_pool_runs_total{outcome="timeout"} 0`)
	f(`code_sandbox_pool_claims_refused_total{code="busy"} 1`)
	f(`code_sandbox_pool_destroyed_total{cause="released"} 3`)
	f(`code_sandbox_pool_destroyed_total{cause="stopped"} 3`)
	f(`code_sandbox_pool_run_seconds_sum{phase="run"} 2`)
	f(`code_sandbox_pool_run_seconds_count{phase="queue"} 2`)
	f(`code_sandbox_pool_start_seconds_count 6`)
}

func gather(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != 200 {
		t.Fatal(answer.Body)
	}
	return answer.Body.String()
}

// A registry that holds the same names already is an error, not a panic.
func TestMetricsTwice(t *testing.T) {
	opts := pool.Options{Driver: &pooltest.Fake{}, Registerer: prometheus.NewRegistry()}
	if _, err := pool.New(opts); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.New(opts); err == nil {
		t.Error("no error")
	}
}

// One line a run, with nothing that the run was given or wrote.
func TestLogHoldsNothingOfTheRun(t *testing.T) {
	var log bytes.Buffer
	driver := &pooltest.Fake{Run: func(_ context.Context, _ *pooltest.FakeSandbox, _ *wire.Request, sink wire.Sink) (*wire.Result, error) {
		sink(wire.Stdout, "secret")
		return &wire.Result{Stdout: "secret", Stderr: "secret", Outcome: wire.OK, Reason: "secret"}, nil
	}}
	opts := pool.Options{Logger: hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Info})}
	run(t, opts, driver, func(b *bench) {
		req := &wire.Request{Code: "secret", Args: []string{"secret"}, Env: map[string]string{"secret": "secret"}}
		res, err := b.Exec(ctx, alice, plain, req, func(wire.Stream, string) {})
		if err != nil {
			t.Fatal(err)
		}
		b.after(time.Second)
		if strings.Contains(log.String(), "secret") {
			t.Errorf("the log tells what a run was given or wrote: %s", log.String())
		}
		if n := strings.Count(log.String(), "run="+res.RunID); n != 1 {
			t.Errorf("%d lines name the run", n)
		}
	})
}
