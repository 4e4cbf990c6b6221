package server

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const prefix = "code_sandbox_service"

// The values of the label limit.
const limitRate, limitInFlight = "rate", "in_flight"

// maxNamespaces bounds the values of the label namespace: those that come
// later are counted together, as otherNamespaces.
const (
	maxNamespaces   = 256
	otherNamespaces = "(others)"
)

type metrics struct {
	requests      *prometheus.CounterVec // code
	auth          *prometheus.CounterVec // result
	refused       *prometheus.CounterVec // limit
	outcomes      *prometheus.CounterVec // outcome
	namespaces    *prometheus.CounterVec // namespace, result
	phases        *prometheus.HistogramVec
	seconds       prometheus.Histogram
	panics        prometheus.Counter
	auditFailures prometheus.Counter

	mu    sync.Mutex
	known map[string]bool
}

var buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

func newMetrics(registry prometheus.Registerer, inFlight func() int) (*metrics, error) {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: prefix, Name: name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: prefix, Name: name, Help: help})
	}
	m := &metrics{
		known:      map[string]bool{},
		requests:   vec("requests_total", "Answers by code: ok, or the code of the error.", "code"),
		auth:       vec("authentications_total", "Tokens that were verified, by result: ok, or the code of the error.", "result"),
		refused:    vec("limited_total", "Runs refused at a limit of their caller's or namespace's: rate, or in_flight.", "limit"),
		outcomes:   vec("outcomes_total", "Runs that ended, by outcome.", "outcome"),
		namespaces: vec("namespace_runs_total", "Runs by namespace, and whether they ended with a result or an error of ours.", "namespace", "result"),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: prefix, Name: "run_seconds", Buckets: buckets,
			Help: "Time of runs by phase (queue, claim, sandbox, total), and whether they found a warm sandbox."}, []string{"phase", "start"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: prefix, Name: "request_seconds", Buckets: buckets,
			Help: "Time from the arrival of a request to the end of its answer."}),
		panics:        counter("panics_total", "Panics that became an answer of ours. Any is a bug."),
		auditFailures: counter("audit_failures_total", "Runs of which no audit record could be written."),
	}
	all := []prometheus.Collector{m.requests, m.auth, m.refused, m.outcomes, m.namespaces, m.phases, m.seconds, m.panics, m.auditFailures,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: prefix, Name: "in_flight", Help: "Runs that have no answer yet."},
			func() float64 { return float64(inFlight()) })}
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("cannot register the service's metrics: %w", err)
		}
	}
	m.begin()
	return m, nil
}

// begin makes the series of labels from fixed sets: a rate sees the first event
// too, and a query finds what it asks for before there is one.
func (m *metrics) begin() {
	for _, limit := range []string{limitRate, limitInFlight} {
		m.refused.WithLabelValues(limit)
	}
	for _, outcome := range wire.Outcomes {
		m.outcomes.WithLabelValues(string(outcome))
	}
	for _, result := range []string{"ok", string(api.Unauthenticated), string(api.NoCapacity)} {
		m.auth.WithLabelValues(result)
	}
}

// answered counts one answer.
func (m *metrics) answered(code string, took time.Duration) {
	m.requests.WithLabelValues(code).Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *metrics) authenticated(err *api.Error) {
	result := "ok"
	if err != nil {
		result = string(sound(err).Code)
	}
	m.auth.WithLabelValues(result).Inc()
}

func (m *metrics) limited(limit string) { m.refused.WithLabelValues(limit).Inc() }

// ran counts one run, whatever came of it.
func (m *metrics) ran(v *visit) {
	namespace := m.namespace(v.caller.Tenant)
	if v.err != nil || v.result == nil {
		m.namespaces.WithLabelValues(namespace, "error").Inc()
		return
	}
	m.namespaces.WithLabelValues(namespace, "result").Inc()
	// What a sandbox says may be made up: the label's set is fixed.
	if slices.Contains(wire.Outcomes, v.result.Outcome) {
		m.outcomes.WithLabelValues(string(v.result.Outcome)).Inc()
	}
	start := "cold"
	if v.result.Warm {
		start = "warm"
	}
	t := v.result.Timing
	m.phases.WithLabelValues("queue", start).Observe(t.QueueMS / 1000)
	m.phases.WithLabelValues("claim", start).Observe(t.ClaimMS / 1000)
	m.phases.WithLabelValues("sandbox", start).Observe(t.RunMS / 1000)
	m.phases.WithLabelValues("total", start).Observe(time.Since(v.arrived).Seconds())
}

// namespace keeps the label's set bounded.
func (m *metrics) namespace(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known[name] {
		if len(m.known) >= maxNamespaces {
			return otherNamespaces
		}
		m.known[name] = true
	}
	return name
}
