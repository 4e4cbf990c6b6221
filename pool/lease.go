package pool

import (
	"context"
	"fmt"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// Lease is what a claimer holds: a sandbox until a deadline.
type Lease struct {
	Sandbox Sandbox
	// Deadline is the template's longest run from the claim on. The reaper
	// takes the sandbox Options.Grace later.
	Deadline time.Time
	// Warm is false when the claim waited for a sandbox to start.
	Warm bool
	// Queued is how long the claim waited for its turn, Waited how long it
	// then waited for the sandbox.
	Queued, Waited time.Duration
	// Release gives the sandbox up; it is always destroyed, in the background.
	// Calling it again does nothing.
	Release func()

	record *record
}

// Claim takes a sandbox of the template for one run, or waits for one. The
// error is an *api.Error of which nothing ran.
func (p *Pool) Claim(ctx context.Context, c Caller, t Template) (*Lease, error) {
	lease, err := p.claim(ctx, c, t)
	if err != nil {
		p.metrics.refused(err.Code)
		return nil, err
	}
	p.metrics.claimed(lease)
	return lease, nil
}

func (p *Pool) claim(ctx context.Context, c Caller, t Template) (*Lease, *api.Error) {
	if ctx.Err() != nil {
		return nil, errLeft(ctx)
	}
	if t.Limits.MaxRun <= 0 {
		return nil, api.Errorf(api.BadRequest, "cannot claim a sandbox: the template's longest run must be positive")
	}
	if t.Owner != (Caller{}) && t.Owner != c {
		return nil, api.Errorf(api.Forbidden, "cannot claim a sandbox: it is another caller's own")
	}
	key := t.Key()
	p.mu.Lock()
	lease, w, err := p.take(c, t, key, api.TraceOf(ctx).Arrived, time.Now())
	p.mu.Unlock()
	if w == nil {
		return lease, err
	}
	return p.wait(ctx, w)
}

// take gives a lease at once, a place in the queue, or a refusal. arrived is
// when the claim's request came, zero for now.
func (p *Pool) take(c Caller, t Template, key string, arrived, now time.Time) (*Lease, *waiter, *api.Error) {
	if p.stopping {
		return nil, nil, errStopping()
	}
	has := p.callers[c]
	if limit := p.opts.InFlightPerCaller; limit > 0 && has.leased+has.waiting >= limit {
		return nil, nil, busy("this caller has %d runs in flight, the most it may have", limit)
	}
	w, err := p.warmPool(t, key, now)
	if err != nil {
		return nil, nil, err
	}
	w.ahead = false
	w.demand.arrivals++
	p.kick()
	// Who waits is served before anything becomes warm: nobody is overtaken.
	if len(w.warm) > 0 {
		lease := p.lease(w.warm[0], c, now)
		lease.Warm = true
		return lease, nil, nil
	}
	if err := w.refusal(now); err != nil {
		return nil, nil, err
	}
	switch {
	case has.waiting >= p.opts.QueuePerCaller:
		return nil, nil, busy("%d runs of this caller wait for a sandbox, the most that may", has.waiting)
	case p.waiting >= p.opts.QueueLimit:
		return nil, nil, busy("%d runs wait for a sandbox, the most that may", p.waiting)
	}
	if arrived.IsZero() {
		arrived = now
	}
	wait := &waiter{caller: c, home: w, arrived: arrived, since: now, answer: make(chan answer, 1)}
	w.queue.push(wait)
	p.count(c, 1, 0)
	return nil, wait, nil
}

func busy(format string, n int) *api.Error {
	return api.Errorf(api.Busy, "cannot claim a sandbox: "+format, n).After(time.Second)
}

// lease takes a warm sandbox for the caller.
func (p *Pool) lease(r *record, c Caller, now time.Time) *Lease {
	deadline := now.Add(r.home.template.Limits.MaxRun)
	r.home.remove(r)
	p.counts[warm]--
	p.counts[leased]++
	p.count(c, 0, 1)
	r.state, r.caller, r.deadline = leased, c, deadline.Add(p.opts.Grace)
	return &Lease{
		Sandbox: r.sandbox, Deadline: deadline, record: r,
		Release: func() { p.release(r, causeReleased) },
	}
}

func (p *Pool) release(r *record, why cause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(r, why)
}

// wait stays in the queue until w is answered, its caller leaves, or MaxWait
// is over.
func (p *Pool) wait(ctx context.Context, w *waiter) (*Lease, *api.Error) {
	timer := time.NewTimer(p.opts.MaxWait)
	defer timer.Stop()
	select {
	case a := <-w.answer:
		return a.lease, a.err
	case <-ctx.Done():
		if a, answered := p.leave(w); answered && a.lease != nil {
			a.lease.Release()
		}
		return nil, errLeft(ctx)
	case <-timer.C:
		if a, answered := p.leave(w); answered {
			return a.lease, a.err
		}
		return nil, p.noneFree(w.home)
	}
}

// noneFree is what a caller is told that waited in vain: for room, or for a
// start that takes longer than it may wait.
func (p *Pool) noneFree(w *warmPool) *api.Error {
	p.mu.Lock()
	starting := w.starting
	p.mu.Unlock()
	why := fmt.Sprintf("at most %d may exist", p.opts.Max)
	if starting > 0 {
		why = "to make one takes longer"
	}
	return api.Errorf(api.NoCapacity, "cannot claim a sandbox: none was free within %v; %s", p.opts.MaxWait, why).After(5 * time.Second)
}

// leave takes w out of the queue, unless it was answered in the same instant.
func (p *Pool) leave(w *waiter) (a answer, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.home.queue.remove(w) {
		p.count(w.caller, -1, 0)
		p.kick()
		return answer{}, false
	}
	return <-w.answer, true
}

func errLeft(ctx context.Context) *api.Error {
	return api.Errorf(api.Timeout, "cannot claim a sandbox: the caller left: %w", context.Cause(ctx))
}
