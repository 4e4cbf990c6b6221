package server

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
)

// rates bounds how often callers and their namespaces begin a run. Those not
// seen for longest are forgotten beyond a number, which forgives them a burst.
type rates struct {
	limits Limits

	mu         sync.Mutex
	callers    *simplelru.LRU[pool.Caller, *rate.Limiter]
	namespaces *simplelru.LRU[string, *rate.Limiter]
}

func newRates(l Limits) (*rates, error) {
	callers, err := simplelru.NewLRU[pool.Caller, *rate.Limiter](16384, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot keep the rates of callers: %w", err)
	}
	namespaces, err := simplelru.NewLRU[string, *rate.Limiter](4096, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot keep the rates of namespaces: %w", err)
	}
	return &rates{limits: l, callers: callers, namespaces: namespaces}, nil
}

// allow counts one run of the caller, or says when it may come again.
func (r *rates) allow(c pool.Caller, now time.Time) *api.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.limits
	caller := limiter(r.callers, c, l.CallerRate, l.CallerBurst)
	namespace := limiter(r.namespaces, c.Tenant, l.NamespaceRate, l.NamespaceBurst)
	mine := caller.ReserveN(now, 1)
	if wait := mine.DelayFrom(now); wait > 0 {
		mine.CancelAt(now)
		return tooOften("this agent begins", l.CallerRate, wait)
	}
	theirs := namespace.ReserveN(now, 1)
	if wait := theirs.DelayFrom(now); wait > 0 {
		theirs.CancelAt(now)
		mine.CancelAt(now)
		return tooOften("the agents of this namespace begin", l.NamespaceRate, wait)
	}
	return nil
}

func tooOften(who string, limit float64, wait time.Duration) *api.Error {
	return api.Errorf(api.Busy, "cannot take the run: %s more than %g runs a second, which is the limit", who, limit).After(wait)
}

func limiter[K comparable](all *simplelru.LRU[K, *rate.Limiter], key K, perSecond float64, burst int) *rate.Limiter {
	if l, ok := all.Get(key); ok {
		return l
	}
	l := rate.NewLimiter(rate.Limit(perSecond), burst)
	all.Add(key, l)
	return l
}
