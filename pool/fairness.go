package pool

import (
	"slices"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// waiter is one claim that waits for a sandbox of its template.
type waiter struct {
	caller  Caller
	home    *warmPool
	arrived time.Time // its request: the order of a caller's waiters
	since   time.Time // when it began to wait
	// answer has one place and is filled once, when the waiter leaves the
	// queue by being served or refused.
	answer chan answer
}

type answer struct {
	lease *Lease
	err   *api.Error
}

// queue says who is next: tenants take turns, within a tenant its callers take
// turns, and a caller's claims are served in order of arrival. It is bounded
// by the pool, so plain slices do.
type queue struct {
	tenants []*tenantLine // the first is next
}

type tenantLine struct {
	tenant  string
	callers []*callerLine // the first is next
}

type callerLine struct {
	caller  Caller
	waiters []*waiter // oldest first
}

func (q *queue) empty() bool { return len(q.tenants) == 0 }

func (q *queue) size() int {
	n := 0
	for _, t := range q.tenants {
		for _, c := range t.callers {
			n += len(c.waiters)
		}
	}
	return n
}

func (q *queue) push(w *waiter) {
	i := slices.IndexFunc(q.tenants, func(t *tenantLine) bool { return t.tenant == w.caller.Tenant })
	if i < 0 {
		i = len(q.tenants)
		q.tenants = append(q.tenants, &tenantLine{tenant: w.caller.Tenant})
	}
	t := q.tenants[i]
	j := slices.IndexFunc(t.callers, func(c *callerLine) bool { return c.caller == w.caller })
	if j < 0 {
		j = len(t.callers)
		t.callers = append(t.callers, &callerLine{caller: w.caller})
	}
	t.callers[j].insert(w)
}

// insert puts w behind those that came before it. Most often that is the end.
func (c *callerLine) insert(w *waiter) {
	i := len(c.waiters)
	for i > 0 && c.waiters[i-1].arrived.After(w.arrived) {
		i--
	}
	c.waiters = slices.Insert(c.waiters, i, w)
}

// pop takes who is next and sends its caller and its tenant to the back. It
// returns nil when nobody waits.
func (q *queue) pop() *waiter {
	if q.empty() {
		return nil
	}
	t := q.tenants[0]
	c := t.callers[0]
	w := c.waiters[0]
	c.waiters = c.waiters[1:]
	t.callers = t.callers[1:]
	if len(c.waiters) > 0 {
		t.callers = append(t.callers, c)
	}
	q.tenants = q.tenants[1:]
	if len(t.callers) > 0 {
		q.tenants = append(q.tenants, t)
	}
	return w
}

// remove takes w out and says whether it was there. Nobody else's turn changes.
func (q *queue) remove(w *waiter) bool {
	for i, t := range q.tenants {
		for j, c := range t.callers {
			k := slices.Index(c.waiters, w)
			if k < 0 {
				continue
			}
			c.waiters = slices.Delete(c.waiters, k, k+1)
			if len(c.waiters) == 0 {
				t.callers = slices.Delete(t.callers, j, j+1)
			}
			if len(t.callers) == 0 {
				q.tenants = slices.Delete(q.tenants, i, i+1)
			}
			return true
		}
	}
	return false
}

// callerCount is what one caller has of the pool.
type callerCount struct {
	waiting, leased int
}

// count changes what a caller has; a caller that has nothing is forgotten.
func (p *Pool) count(c Caller, waiting, leased int) {
	n := p.callers[c]
	n.waiting += waiting
	n.leased += leased
	p.waiting += waiting
	if n == (callerCount{}) {
		delete(p.callers, c)
		return
	}
	p.callers[c] = n
}
