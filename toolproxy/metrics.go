package toolproxy

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// reasons are the labels of refusals; another word counts as "other".
var reasons = []string{
	"made_at_run_time", "import_failed", "import_timeout", "import_memory", "code_mismatch", "state", "argument", "result_type",
	"result_too_large", "folder_too_large", "folder_private", "interpreter_place", "no_hook", "no_isolation", "no_egress", "bad_frame",
	// Of copies on a cluster.
	"container", "image_digest", "policy_conflict", "copy_mutated", "no_copies", "interpreter_missing", "code_on_volume", "image_volume",
}

type metrics struct {
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	refusals *prometheus.CounterVec
	boots    prometheus.Counter
	heard    prometheus.Gauge
	audited  *prometheus.CounterVec
}

// decision is the label of a decision.
func decision(word string) string {
	if slices.Contains([]string{"sandboxed", "refused"}, word) {
		return word
	}
	return "other"
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "code_sandbox_tool_calls_total",
			Help: "Tool calls by how they ended: ok, raised, or the code of the error.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "code_sandbox_tool_call_seconds",
			Help:    "Time of tool calls that returned or raised, by whether a warm copy was there.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"start"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "code_sandbox_tool_refusals_total",
			Help: "Tool calls that cannot be sandboxed, by reason.",
		}, []string{"reason"}),
		boots: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "code_sandbox_tool_boots_total",
			Help: "Agent processes that said hello.",
		}),
	}
	m.heard = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "code_sandbox_tool_hook_heard",
		Help: "1 once a process has said hello: its interpreter has loaded the hook, and it has registered a tool. 0 before.",
	})
	m.audited = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "code_sandbox_tool_audited_calls_total",
		Help: "Tool calls that ran in agents in audit mode, by what enforce mode would have made of them.",
	}, []string{"decision"})
	for _, c := range []prometheus.Collector{m.calls, m.seconds, m.refusals, m.boots, m.heard, m.audited} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("cannot register the metrics of tool calls: %w", err)
		}
	}
	return m, nil
}

// ended counts a call and logs it, without arguments and results.
func (p *Proxy) ended(c *prepared, res *wire.Result, e *api.Error, took time.Duration) {
	outcome, id, warm := "ok", "", false
	switch {
	case e != nil:
		outcome = string(e.Code)
	case res.Outcome != wire.OK:
		outcome = "raised"
	}
	if res != nil {
		id, warm = res.SandboxID, res.Warm
	}
	p.metrics.calls.WithLabelValues(outcome).Inc()
	if e == nil {
		p.metrics.seconds.WithLabelValues(map[bool]string{true: "warm", false: "cold"}[warm]).Observe(took.Seconds())
	} else if e.Code == api.Unsandboxable {
		reason := e.Reason
		if !slices.Contains(reasons, reason) {
			reason = "other"
		}
		p.metrics.refusals.WithLabelValues(reason).Inc()
	}
	p.note(c, outcome, warm, took)
	fields := []any{"tool", clip(c.request.Tool), "framework", clip(c.request.Framework), "outcome", outcome, "sandbox", id, "warm", warm,
		"ms", float64(took.Microseconds()) / 1000}
	if e != nil {
		fields = append(fields, "reason", e.Reason, "executed", string(e.Executed))
	}
	p.log.Info("tool call ended", fields...)
}
