package sidecar

import (
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// gate counts the runs in flight, refuses one too many, and lets none in once
// it is shut.
type gate struct {
	maxRuns  int
	maxBytes int64

	mu    sync.Mutex
	shut  bool
	runs  int
	bytes int64
	idle  chan struct{} // closed when shut and empty
}

func newGate(l ServerLimits) *gate {
	return &gate{maxRuns: l.Requests, maxBytes: l.BodiesBytes, idle: make(chan struct{})}
}

// enter lets in a request for so many runs (one, or none yet) whose body has n
// bytes; leave with the same numbers must follow.
func (g *gate) enter(runs int, n int64) *api.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.shut:
		return api.Errorf(api.NoCapacity, "the sidecar is shutting down and starts no more runs: send the request again").After(time.Second)
	case g.runs+runs > g.maxRuns:
		return api.Errorf(api.Busy, "%d runs are in flight, which is the limit here: send the request again when one has ended", g.runs).After(time.Second)
	case g.bytes+n > g.maxBytes:
		return api.Errorf(api.Busy, "the runs in flight hold %d bytes of requests and this one has %d more, over the limit of %d: send it again when one has ended", g.bytes, n, g.maxBytes).After(time.Second)
	}
	g.runs += runs
	g.bytes += n
	return nil
}

func (g *gate) leave(runs int, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs -= runs
	g.bytes -= n
	if g.shut && runs > 0 && g.runs == 0 {
		close(g.idle)
	}
}

// close lets nobody in any more; the channel is closed when the last has left.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut = true
		if g.runs == 0 {
			close(g.idle)
		}
	}
	return g.idle
}

func (g *gate) closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

func (g *gate) inFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs
}
