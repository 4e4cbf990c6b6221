package pool

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// cause is why a sandbox is destroyed. The set is closed.
type cause string

const (
	causeReleased cause = "released" // its run ended, or its claimer gave it up
	causeLost     cause = "lost"     // it went away by itself
	causeExpired  cause = "expired"  // it outlived its deadline
	causeSurplus  cause = "surplus"  // fewer are wanted
	causeRoom     cause = "room"     // another template needed its place
	causeTemplate cause = "template" // its template was drained
	causeOrphan   cause = "orphan"   // the pool never knew it
	causeStopped  cause = "stopped"  // the pool stopped
)

var causes = []cause{causeReleased, causeLost, causeExpired, causeSurplus, causeRoom, causeTemplate, causeOrphan, causeStopped}

// settleTime is how long a driver's new watch may take to report a sandbox
// that exists.
const settleTime = 10 * time.Second

// end marks a sandbox to be destroyed. One that is being destroyed stays so.
func (p *Pool) end(r *record, why cause) {
	switch r.state {
	case destroying:
		return
	case warm:
		r.home.remove(r)
	case leased:
		p.count(r.caller, 0, -1)
	}
	p.counts[r.state]--
	p.doom(r, why)
}

// doom puts a sandbox in the line to be destroyed.
func (p *Pool) doom(r *record, why cause) {
	r.state, r.cause = destroying, why
	p.counts[destroying]++
	p.doomed = append(p.doomed, r)
	p.kick()
}

// destroyDue sets destructions going, as many as may be at once, and returns
// when one that was refused is tried again; zero is never.
func (p *Pool) destroyDue(ctx context.Context, now time.Time) (next time.Time) {
	p.doomed = slices.DeleteFunc(p.doomed, func(r *record) bool {
		if r.retryAt.After(now) {
			next = earlier(r.retryAt, next)
			return false
		}
		if p.destroys >= p.opts.MaxDestroying {
			return false // looked at again when one ends
		}
		p.destroys++
		p.work.Go(func() { p.destroy(ctx, r) })
		return true
	})
	return next
}

// destroy makes one attempt. The sandbox counts against Max until it is gone.
func (p *Pool) destroy(ctx context.Context, r *record) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.DestroyTimeout)
	defer cancel()
	err := p.opts.Driver.Destroy(ctx, r.id)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.kick()
	p.destroys--
	if err != nil {
		r.attempts++
		r.retryAt = time.Now().Add(backoff(r.attempts, rand.Float64()))
		p.doomed = append(p.doomed, r)
		p.metrics.destroyFailures.Inc()
		p.log.Warn("cannot destroy a sandbox", "sandbox", r.id, "cause", string(r.cause),
			"attempts", r.attempts, "error", err)
		return
	}
	delete(p.records, r.id)
	p.counts[destroying]--
	p.ended.Add(r.id, struct{}{})
	p.metrics.destroyed[r.cause].Inc()
}

// sweep does what is due once a second.
func (p *Pool) sweep(now time.Time) {
	for _, w := range p.pools.Values() {
		w.demand.roll()
		wanted := w.demand.retarget(w.wanted, p.target(w.template), p.opts.MaxTarget, now)
		if wanted != w.wanted {
			p.log.Debug("target changed", "template", w.key, "from", w.wanted, "to", wanted)
			w.wanted = wanted
		}
		if !w.pinned && w.queue.empty() && now.Sub(w.used) >= p.opts.TemplateIdle {
			p.drop(w, causeTemplate)
		}
	}
	settled := !p.settleBy.IsZero() && now.After(p.settleBy)
	for _, r := range p.records {
		switch {
		case r.state == leased && p.stopping && !now.Before(p.drainBy):
			p.end(r, causeStopped)
		case r.state == leased && now.After(r.deadline):
			p.log.Warn("sandbox outlived its deadline", "sandbox", r.id, "tenant", r.caller.Tenant, "caller", r.caller.Name)
			p.end(r, causeExpired)
		case r.state == warm && settled && r.unseen:
			p.log.Warn("warm sandbox is gone", "sandbox", r.id, "cause", "not reported by the driver")
			p.end(r, causeLost)
		}
	}
	if settled {
		p.settleBy = time.Time{}
	}
}

// watch follows what the driver reports until ctx ends.
func (p *Pool) watch(ctx context.Context) {
	for fails := 0; ctx.Err() == nil; {
		events, err := p.opts.Driver.Watch(ctx)
		if err == nil {
			p.watching()
			for e := range events {
				fails = 0
				p.heard(e)
			}
		}
		if ctx.Err() != nil {
			return
		}
		fails++
		pause := backoff(fails, rand.Float64())
		p.log.Warn("cannot watch sandboxes", "retry_ms", pause.Milliseconds(), "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// watching begins to compare the driver's sandboxes with the records: what a
// new watch does not report in time is gone.
func (p *Pool) watching() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settleBy = time.Now().Add(settleTime)
	for _, r := range p.records {
		r.unseen = true
	}
}

// heard takes note of one event.
func (p *Pool) heard(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, known := p.records[e.ID]
	switch {
	case known && e.Gone:
		// The run in a leased one fails by itself.
		if r.state == warm {
			p.log.Warn("warm sandbox is gone", "sandbox", e.ID, "cause", e.Cause)
			p.end(r, causeLost)
		}
	case known:
		r.unseen = false
	case e.Gone:
		delete(p.suspects, e.ID)
	case !p.ended.Contains(e.ID):
		p.suspects[e.ID] = p.lastStart
		p.kick()
	}
}

// judge destroys the suspects that no start under way can have made. A
// sandbox of another life of the pool may have run code: it is never adopted.
func (p *Pool) judge() {
	for id, last := range p.suspects {
		if p.startedBy(last) {
			continue
		}
		delete(p.suspects, id)
		p.log.Warn("unknown sandbox found", "sandbox", id)
		p.orphan(id)
	}
}

// orphan destroys what has no record.
func (p *Pool) orphan(id string) {
	r := &record{id: id}
	p.records[id] = r
	p.doom(r, causeOrphan)
}

// startedBy says whether a start up to that number is under way.
func (p *Pool) startedBy(last uint64) bool {
	for number := range p.starts {
		if number <= last {
			return true
		}
	}
	return false
}
