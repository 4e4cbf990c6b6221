package egress

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// How a request through the proxy ended.
const (
	allowed = "allowed"
	denied  = "denied"      // the host is not granted, or its address is closed
	failed  = "failed"      // the host could not be reached
	limited = "limited"     // a bound of the sandbox is used up
	refused = "bad_request" // it is no request for a proxy
)

// maxTools bounds the values of the label tool, and maxToolName the bytes of one:
// other grants, and those that come later, are counted together as otherTools.
const (
	maxTools    = 256
	maxToolName = 200
	otherTools  = "(others)"
)

type metrics struct {
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec

	mu    sync.Mutex
	tools map[string]bool
}

// tool is the label of a grant's tool.
func (m *metrics) tool(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.tools[name] && len(m.tools) >= maxTools || len(name) > maxToolName {
		return otherTools
	}
	m.tools[name] = true
	return name
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		tools: map[string]bool{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "code_sandbox_egress_requests_total",
			Help: "Requests of tools to the egress proxy, by the grant's tool and what became of them.",
		}, []string{"tool", "outcome"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "code_sandbox_egress_bytes_total",
			Help: "Bytes between tools and granted hosts, by the grant's tool and direction.",
		}, []string{"tool", "direction"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.bytes} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("cannot register the metrics of the egress proxy: %w", err)
		}
	}
	return m, nil
}
