package kube

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what a Driver counts. Labels are from fixed sets.
type metrics struct {
	phases         *prometheus.HistogramVec
	failures       *prometheus.CounterVec
	mutated        prometheus.Counter
	open           prometheus.Counter
	deleteFailures prometheus.Counter
	orphans        prometheus.Counter
	renewFailures  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "code_sandbox_kube_" + name, Help: help})
	}
	m := &metrics{
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "code_sandbox_kube_start_phase_seconds", Help: "What the start of a pod spends its time with.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"phase"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "code_sandbox_kube_start_failures_total", Help: "Starts of pods that failed, by why.",
		}, []string{"reason"}),
		mutated:        counter("mutated_pods_total", "Pods refused because admission changed them."),
		open:           counter("open_sandboxes_total", "Sandboxes refused because they reached what they must not."),
		deleteFailures: counter("delete_failures_total", "Deletions of pods that the API server did not carry out at once."),
		orphans:        counter("orphans_total", "Pods destroyed that a replica which died has left."),
		renewFailures:  counter("lease_renew_failures_total", "Renewals of this replica's Lease that failed."),
	}
	for _, c := range []prometheus.Collector{m.phases, m.failures, m.mutated, m.open, m.deleteFailures, m.orphans, m.renewFailures} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// phase measures until the returned function is called.
func (m *metrics) phase(name string) func() {
	began := time.Now()
	return func() { m.phases.WithLabelValues(name).Observe(time.Since(began).Seconds()) }
}
