package pool

import (
	"slices"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// state is where a sandbox is in its life. One that starts has no id yet and
// no record; it is counted in Pool.starts.
type state int

const (
	warm state = iota
	leased
	destroying
	states // how many there are
)

// record is what the pool knows of one sandbox that stands.
type record struct {
	id      string
	sandbox Sandbox   // nil for one that the pool did not start
	home    *warmPool // nil likewise
	state   state
	asked   time.Time // when its start was asked for
	unseen  bool      // the driver's new watch has not reported it yet

	caller   Caller    // leased
	deadline time.Time // leased: when the reaper takes it

	cause    cause // destroying
	attempts int
	retryAt  time.Time
}

// warmPool is the ready sandboxes of one template and what is known of the
// demand for them.
type warmPool struct {
	template Template
	key      string
	pinned   bool      // never drained for want of use
	ahead    bool      // nobody has claimed of it yet; see Pool.Ahead
	used     time.Time // last claim
	dropped  cause     // set when drained: what still starts is destroyed for it

	warm      []*record // oldest first
	starting  int
	lastStart uint64 // the number of its last start: templates take turns
	queue     queue

	demand demand
	wanted int // how many to keep warm

	fails   int // starts that failed in a row
	retryAt time.Time
	failure *api.Error // what callers are told while starts fail
	typed   bool       // the driver said so itself
}

func newWarmPool(t Template, key string, target int, now time.Time) *warmPool {
	return &warmPool{template: t, key: key, used: now, wanted: target}
}

// remove takes r out of the ready ones.
func (w *warmPool) remove(r *record) {
	if i := slices.Index(w.warm, r); i >= 0 {
		w.warm = slices.Delete(w.warm, i, i+1)
	}
}

// failing says that starts fail and callers should be told. One failure that
// the driver does not explain is retried first: it may be an accident.
func (w *warmPool) failing() bool {
	return w.fails >= 3 || w.fails > 0 && w.typed
}

// refusedForGood says that the template itself is what cannot start.
func (w *warmPool) refusedForGood() bool {
	return w.typed && !w.failure.Retry && w.failure.Status() < 500
}

// refusal is what a caller without a sandbox is told while starts fail. It is
// nil when the next start is due: the first caller after a back-off waits for
// it to end.
func (w *warmPool) refusal(now time.Time) *api.Error {
	if !w.failing() || w.starting == 0 && !now.Before(w.retryAt) {
		return nil
	}
	e := *w.failure
	if e.Retry && e.RetryAfter == 0 {
		e.RetryAfter = max(time.Second, w.retryAt.Sub(now))
	}
	return &e
}

// warmPool finds the template's warm pool or makes it, at the cost of another.
func (p *Pool) warmPool(t Template, key string, now time.Time) (*warmPool, *api.Error) {
	if w, ok := p.pools.Get(key); ok {
		w.used = now
		return w, nil
	}
	if err := p.roomFor(t); err != nil {
		return nil, err
	}
	w := newWarmPool(t, key, p.target(t), now)
	p.pools.Add(key, w)
	p.log.Info("template added", "template", key, "image", t.Image)
	return w, nil
}

// target is how many sandboxes of a template are kept warm at least.
func (p *Pool) target(t Template) int {
	if t.Warm > 0 {
		return min(t.Warm, p.opts.MaxTarget)
	}
	return p.opts.Target
}

// drop forgets a template. Its warm sandboxes are destroyed; runs go on.
func (p *Pool) drop(w *warmPool, why cause) {
	w.dropped = why
	p.pools.Remove(w.key)
	for len(w.warm) > 0 {
		p.end(w.warm[0], why)
	}
	p.log.Info("template drained", "template", w.key, "cause", string(why))
}

// serve hands ready sandboxes to those who wait, in their turn.
func (p *Pool) serve(w *warmPool, now time.Time) {
	for len(w.warm) > 0 && !w.queue.empty() {
		c := w.queue.pop()
		p.count(c.caller, -1, 0)
		lease := p.lease(w.warm[0], c.caller, now)
		// A caller had its turn when the start that served it was asked for.
		turn := c.since
		if asked := lease.record.asked; asked.After(turn) {
			turn = asked
		}
		lease.Queued, lease.Waited, lease.Warm = turn.Sub(c.since), now.Sub(turn), false
		c.answer <- answer{lease: lease}
	}
}

// refuseAll tells all who wait for w why they wait in vain.
func (p *Pool) refuseAll(w *warmPool, err *api.Error) {
	for c := w.queue.pop(); c != nil; c = w.queue.pop() {
		p.count(c.caller, -1, 0)
		c.answer <- answer{err: err}
	}
}
