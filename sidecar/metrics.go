package sidecar

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
	bytes    prometheus.Counter
	panics   prometheus.Counter
	hangups  prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "code_sandbox_sidecar_requests_total",
			Help: "Answers by code: ok, or the code of the error.",
		}, []string{"code"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "code_sandbox_sidecar_request_seconds",
			Help:    "Time from the arrival of a request's headers to the end of its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "code_sandbox_sidecar_answer_bytes_total",
			Help: "Bytes of answers, without headers.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "code_sandbox_sidecar_panics_total",
			Help: "Panics that became an answer of ours. Any is a bug.",
		}),
		hangups: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "code_sandbox_sidecar_hangups_total",
			Help: "Callers that closed their connection before the answer.",
		}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.bytes, m.panics, m.hangups} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("cannot register the sidecar's metrics: %w", err)
		}
	}
	return m, nil
}

// watch adds the number of runs in flight, asked for at each scrape.
func (m *metrics) watch(registry prometheus.Registerer, inFlight func() int) error {
	err := registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "code_sandbox_sidecar_in_flight",
		Help: "Requests for a run that have no answer yet.",
	}, func() float64 { return float64(inFlight()) }))
	if err != nil {
		return fmt.Errorf("cannot register the sidecar's metrics: %w", err)
	}
	return nil
}

// answered counts one answer.
func (m *metrics) answered(code string, took time.Duration, size int) {
	m.requests.WithLabelValues(code).Inc()
	m.seconds.Observe(took.Seconds())
	m.bytes.Add(float64(size))
}
