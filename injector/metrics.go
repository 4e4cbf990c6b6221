package injector

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	admissions *prometheus.CounterVec
	seconds    prometheus.Histogram
	failures   *prometheus.CounterVec
	panics     prometheus.Counter
	audited    *prometheus.GaugeVec
	hookless   prometheus.Gauge
	audits     *prometheus.CounterVec
	// auditedAt is when the last audit ended that read every namespace.
	auditedAt     prometheus.Gauge
	auditEvery    prometheus.Gauge
	auditFailures *prometheus.CounterVec
	lookups       *prometheus.CounterVec
	bundles       *prometheus.CounterVec
}

// failures of admissions and audits, as their counters name them.
const (
	failBody      = "body"      // not an admission review
	failNamespace = "namespace" // the pod's namespace could not be read
	failAuthority = "authority" // there is no certificate authority to give to a sidecar, or it cannot be read anew
	failBusy      = "busy"      // too many reviews at once

	failNamespaces = "namespaces" // the enrolled namespaces could not be listed
	failPods       = "pods"       // the pods or the policy of one of them could not be read
)

// What came of asking the API server beside the watch.
const (
	lookupKnown  = "known"  // it has no enrolment and no policy that the watch lacks
	lookupLagged = "lagged" // it has, so the watch is behind
	lookupFailed = "failed"
)

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "code_sandbox_injector_" + name, Help: help}, labels)
	}
	m := &metrics{
		admissions: counter("admissions_total", "Pods that were decided about, by result, and why they were not injected.", "result", "reason"),
		failures:   counter("admission_failures_total", "Admissions without a decision, by cause.", "cause"),
		audits:     counter("audits_total", "Audits of the pods of enrolled namespaces, by result.", "result"),
		auditFailures: counter("audit_failures_total",
			"What an audit could not read, by cause; a namespace that cannot be read keeps the counts that it had.", "cause"),
		lookups: counter("lookups_total", "Reads of the API server, by object and result, where the watch knows no enrolment or no policy of a namespace, "+
			"or a pod that comes with a sidecar is not as we make it under what the watch knows.", "object", "result"),
		auditedAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "code_sandbox_injector_audit_success_timestamp_seconds",
			Help: "When this replica last ended an audit that read every enrolled namespace; 0 before it does.",
		}),
		auditEvery: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "code_sandbox_injector_audit_interval_seconds", Help: "Time between two audits.",
		}),
		bundles: counter("ca_writes_total", "Times the certificate authority was written into the webhook's configuration, by result.", "result"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "code_sandbox_injector_admission_seconds", Help: "Time from an admission request to its answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "code_sandbox_injector_panics_total", Help: "Panics that became an answer of ours. Any is a bug.",
		}),
		audited: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "code_sandbox_injector_pods_without_sidecar",
			Help: "Running pods of enrolled namespaces that have no sidecar of this version and policy, by reason, as the last audit found them.",
		}, []string{"reason"}),
		hookless: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "code_sandbox_injector_pods_without_hook",
			Help: "Running pods that require the tool-call hook and have not loaded it, as the last audit found them.",
		}),
	}
	for _, c := range []prometheus.Collector{m.admissions, m.failures, m.audits, m.bundles, m.seconds, m.panics, m.audited, m.hookless,
		m.auditedAt, m.auditEvery, m.auditFailures, m.lookups} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("cannot register the injector's metrics: %w", err)
		}
	}
	m.start()
	return m, nil
}

// start makes every series exist, so that a rate over them is never missing.
func (m *metrics) start() {
	m.admissions.WithLabelValues(string(injected), "")
	for _, r := range Reasons {
		m.audited.WithLabelValues(string(r))
		if r.audited() {
			continue
		}
		m.admissions.WithLabelValues(string(skipped), string(r))
		if kinds[r] >= impossible {
			m.admissions.WithLabelValues(string(denied), string(r))
		}
	}
	for _, cause := range []string{failBody, failNamespace, failAuthority, failBusy} {
		m.failures.WithLabelValues(cause)
	}
	for _, cause := range []string{failAuthority, failNamespaces, failPods} {
		m.auditFailures.WithLabelValues(cause)
	}
	for _, object := range []string{objectNamespace, objectPolicy} {
		for _, result := range []string{lookupKnown, lookupLagged, lookupFailed} {
			m.lookups.WithLabelValues(object, result)
		}
	}
	for _, result := range []string{"ok", "failed"} {
		m.audits.WithLabelValues(result)
		m.bundles.WithLabelValues(result)
	}
	m.bundles.WithLabelValues("conflict")
}

func (m *metrics) answered(a answer, took time.Duration) {
	m.admissions.WithLabelValues(string(a.result), string(a.verdict.Reason)).Inc()
	m.seconds.Observe(took.Seconds())
}

func okOr(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
