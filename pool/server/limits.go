package server

import "fmt"

// Limits bounds the callers. Every field must be positive.
type Limits struct {
	// Runs a second that may begin, and how many at once after a pause.
	CallerRate, NamespaceRate   float64
	CallerBurst, NamespaceBurst int
	// Runs in flight, those that wait for a sandbox included.
	CallerRuns, NamespaceRuns, Runs int
	// BodyBytes bounds one request, BodiesBytes those of all runs in flight.
	BodyBytes, BodiesBytes int64
	Connections            int
}

// DefaultLimits let an agent be busy and no namespace take all.
func DefaultLimits() Limits {
	return Limits{
		CallerRate: 50, CallerBurst: 100, NamespaceRate: 200, NamespaceBurst: 400,
		CallerRuns: 64, NamespaceRuns: 256, Runs: 1024,
		// A sidecar takes 16 MiB, of which JSON may make more when it is encoded anew.
		BodyBytes: 36 << 20, BodiesBytes: 256 << 20,
		Connections: 8192,
	}
}

// validate names the first limit that cannot be.
func (l Limits) validate() error {
	for _, limit := range []struct {
		name  string
		value float64
	}{
		{"CallerRate", l.CallerRate},
		{"NamespaceRate", l.NamespaceRate},
		{"CallerBurst", float64(l.CallerBurst)},
		{"NamespaceBurst", float64(l.NamespaceBurst)},
		{"CallerRuns", float64(l.CallerRuns)},
		{"NamespaceRuns", float64(l.NamespaceRuns)},
		{"Runs", float64(l.Runs)},
		{"BodyBytes", float64(l.BodyBytes)},
		{"Connections", float64(l.Connections)},
	} {
		if limit.value <= 0 {
			return fmt.Errorf("the limit %s must be more than 0, not %v", limit.name, limit.value)
		}
	}
	if l.BodiesBytes < l.BodyBytes {
		return fmt.Errorf("the limit BodiesBytes (%d) must not be under BodyBytes (%d): the largest request would never be let in", l.BodiesBytes, l.BodyBytes)
	}
	return nil
}
