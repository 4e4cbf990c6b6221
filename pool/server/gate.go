package server

import (
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
)

// gate counts the runs in flight, refuses one too many, and lets none in once
// it is shut.
type gate struct {
	limits Limits

	mu         sync.Mutex
	shut       bool
	runs       int
	bytes      int64
	callers    map[pool.Caller]int
	namespaces map[string]int
	idle       chan struct{} // closed when shut and empty
}

func newGate(l Limits) *gate {
	return &gate{limits: l, callers: map[pool.Caller]int{}, namespaces: map[string]int{}, idle: make(chan struct{})}
}

// enter lets in a run whose body has n bytes. leave must be called, once.
func (g *gate) enter(c pool.Caller, n int64) (leave func(), err *api.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch l := g.limits; {
	case g.shut:
		return nil, errShut()
	case g.callers[c] >= l.CallerRuns:
		return nil, full("this agent has %d runs in flight, the most it may have", g.callers[c])
	case g.namespaces[c.Tenant] >= l.NamespaceRuns:
		return nil, full("the agents of this namespace have %d runs in flight, the most they may have", g.namespaces[c.Tenant])
	case g.runs >= l.Runs:
		return nil, full("%d runs are in flight, the most that may be here", g.runs)
	case g.bytes+n > l.BodiesBytes:
		return nil, full("the runs in flight hold %d bytes of requests and there is no room for this one", g.bytes)
	}
	g.count(c, 1, n)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.count(c, -1, -n)
		if g.shut && g.runs == 0 {
			close(g.idle)
		}
	}, nil
}

func errShut() *api.Error {
	return api.Errorf(api.NoCapacity, "this replica of the pool is shutting down and starts no more runs").Because(api.Draining).After(time.Second)
}

func full[N int | int64](format string, n N) *api.Error {
	return api.Errorf(api.Busy, "cannot take the run: "+format, n).After(time.Second)
}

// count changes what is in flight; who has nothing is forgotten.
func (g *gate) count(c pool.Caller, runs int, n int64) {
	g.runs += runs
	g.bytes += n
	if g.callers[c] += runs; g.callers[c] == 0 {
		delete(g.callers, c)
	}
	if g.namespaces[c.Tenant] += runs; g.namespaces[c.Tenant] == 0 {
		delete(g.namespaces, c.Tenant)
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
