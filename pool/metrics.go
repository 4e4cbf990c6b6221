package pool

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const namespace = "code_sandbox_pool"

// metrics counts what the pool does. All labels are from fixed sets and exist
// from the start, so that a rate over them is never missing.
type metrics struct {
	claims          map[bool]prometheus.Counter // by whether it was warm
	refusals        map[api.Code]prometheus.Counter
	runs            map[wire.Outcome]prometheus.Counter
	failures        map[api.Code]prometheus.Counter
	destroyed       map[cause]prometheus.Counter
	startFailures   prometheus.Counter
	destroyFailures prometheus.Counter

	queueWait prometheus.Histogram
	starts    prometheus.Histogram
	phases    map[string]prometheus.Observer
}

// seconds are the buckets of all histograms: from a tenth of a millisecond (a
// warm claim) to five minutes (the longest run).
var seconds = []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// register registers collectors until one is refused.
type register struct {
	to  prometheus.Registerer
	err error
}

func (r *register) add(c prometheus.Collector) {
	if r.err == nil {
		r.err = r.to.Register(c)
	}
}

func (r *register) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	r.add(c)
	return c
}

func (r *register) histogram(name, help string) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: seconds})
	r.add(h)
	return h
}

func (r *register) gauge(name, help string, labels prometheus.Labels, value func() int) {
	r.add(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels},
		func() float64 { return float64(value()) }))
}

// counters makes one counter for each of a label's values.
func counters[K ~string](r *register, name, help, label string, values []K) map[K]prometheus.Counter {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
	r.add(vec)
	all := make(map[K]prometheus.Counter, len(values))
	for _, v := range values {
		all[v] = vec.WithLabelValues(string(v))
	}
	return all
}

func newMetrics(to prometheus.Registerer, stats func() Stats) (*metrics, error) {
	r := &register{to: to}
	codes := make([]api.Code, 0, len(api.Codes()))
	for code := range api.Codes() {
		codes = append(codes, code)
	}
	claims := counters(r, "claims_total", "Sandboxes claimed; cold ones waited for a start.", "start", []string{"warm", "cold"})
	m := &metrics{
		claims:          map[bool]prometheus.Counter{true: claims["warm"], false: claims["cold"]},
		refusals:        counters(r, "claims_refused_total", "Claims that got no sandbox, by error code.", "code", codes),
		runs:            counters(r, "runs_total", "Runs that ended, by outcome.", "outcome", wire.Outcomes),
		failures:        counters(r, "runs_failed_total", "Runs without a result, by error code.", "code", codes),
		destroyed:       counters(r, "destroyed_total", "Sandboxes destroyed, by cause.", "cause", causes),
		startFailures:   r.counter("start_failures_total", "Starts that failed."),
		destroyFailures: r.counter("destroy_failures_total", "Attempts to destroy a sandbox that failed."),
		queueWait:       r.histogram("queue_wait_seconds", "Time from a claim to its sandbox."),
		starts:          r.histogram("start_seconds", "Time a start took, failed ones included."),
		phases:          map[string]prometheus.Observer{},
	}
	phases := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "run_seconds", Help: "Time of runs by phase: queue, claim, run.", Buckets: seconds,
	}, []string{"phase"})
	r.add(phases)
	for _, phase := range []string{"queue", "claim", "run"} {
		m.phases[phase] = phases.WithLabelValues(phase)
	}
	r.gauge("queue_depth", "Claims that wait for a sandbox.", nil, func() int { return stats().Waiting })
	byState := func(state string, value func(Stats) int) {
		r.gauge("sandboxes", "Sandboxes in existence, by state.", prometheus.Labels{"state": state},
			func() int { return value(stats()) })
	}
	byState("warm", func(s Stats) int { return s.Warm })
	byState("starting", func(s Stats) int { return s.Starting })
	byState("leased", func(s Stats) int { return s.Leased })
	byState("destroying", func(s Stats) int { return s.Destroying })
	return m, r.err
}

func (m *metrics) claimed(l *Lease) {
	m.claims[l.Warm].Inc()
	m.queueWait.Observe((l.Queued + l.Waited).Seconds())
}

func (m *metrics) refused(code api.Code) { inc(m.refusals, code) }

func (m *metrics) failed(code api.Code) { inc(m.failures, code) }

func (m *metrics) ran(outcome wire.Outcome, queued, claimed, ran time.Duration) {
	inc(m.runs, outcome)
	m.phases["queue"].Observe(queued.Seconds())
	m.phases["claim"].Observe(claimed.Seconds())
	m.phases["run"].Observe(ran.Seconds())
}

// inc counts a value that a driver may have made up: outside of the fixed set
// it is not counted.
func inc[K comparable](counters map[K]prometheus.Counter, value K) {
	if c, ok := counters[value]; ok {
		c.Inc()
	}
}
