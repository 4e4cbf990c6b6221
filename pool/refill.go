package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// breath is how long the start of a copy is put off when nobody waits for it.
// The claim that made room for it is mostly a call of a few milliseconds, and
// the import of a program beside it would take the processor from it.
const breath = 25 * time.Millisecond

// refill starts what is missing and ends what is too much. It returns when a
// template that failed is due again; zero is never.
func (p *Pool) refill(ctx context.Context, now time.Time) (next time.Time) {
	if p.stopping || ctx.Err() != nil { // what ctx has ended will stop in a moment
		return time.Time{}
	}
	pools := p.pools.Values()
	all := make([]stock, len(pools))
	for i, w := range pools {
		for len(w.warm) > w.wanted {
			p.end(w.warm[0], causeSurplus)
		}
		all[i] = stock{
			waiting: w.queue.size(), warm: len(w.warm), starting: w.starting,
			wanted: w.wanted, most: p.allowed(w, now), turn: w.lastStart, owner: w.template.Owner,
		}
		if w.retryAt.After(now) {
			next = earlier(w.retryAt, next)
		}
	}
	aheadLast(pools, all)
	has := p.holdings(pools)
	p.boundOwned(pools, all, has)
	free := p.opts.Max - len(p.records) - len(p.starts)
	slots := p.opts.MaxStarting - len(p.starts)
	starts, unmet := plan(all, min(free, slots), has)
	for i, n := range starts {
		for range n {
			p.start(ctx, pools[i], now)
		}
	}
	if slots > free {
		p.makeRoom(pools, unmet, has)
	}
	return next
}

// allowed bounds the starts asked for at once: one when the last failed, and
// none before its back-off is over. What can never start is tried again for a
// caller only. The first copy of a program starts alone:
// it imports the program, and others beside it would only slow it down, or fail
// as it does.
func (p *Pool) allowed(w *warmPool, now time.Time) int {
	switch {
	case w.fails == 0 && w.template.Copy != nil && w.demand.toWarm == 0:
		return max(0, 1-w.starting)
	case w.fails == 0:
		return p.opts.MaxStarting
	case w.starting > 0 || now.Before(w.retryAt) || w.refusedForGood() && w.queue.empty():
		return 0
	}
	return 1
}

// makeRoom ends warm sandboxes of templates nobody waits for, so that those who
// wait get one: unmet is how many of each template do, and what is being destroyed
// is room for the first of them. What changes hands is counted in has.
func (p *Pool) makeRoom(pools []*warmPool, unmet []int, has shares) {
	soon := p.counts[destroying]
	for i, n := range unmet {
		met := min(n, soon)
		soon -= met
		for range n - met {
			waiter := pools[i].template.Owner
			w := has.giver(pools, waiter)
			if w == nil {
				return
			}
			has.count(waiter, 1)
			has.count(w.template.Owner, -1)
			p.end(w.warm[0], causeRoom)
		}
	}
}

// start records a start and asks the driver for it.
func (p *Pool) start(ctx context.Context, w *warmPool, now time.Time) {
	p.lastStart++
	number, fails := p.lastStart, w.fails
	p.starts[number] = struct{}{}
	w.starting++
	w.lastStart = number
	putOff := w.template.Copy != nil && w.queue.empty()
	p.work.Go(func() {
		if putOff {
			pause(ctx, breath)
		}
		bounded, cancel := context.WithTimeout(ctx, p.opts.StartTimeout)
		defer cancel()
		sandbox, err := p.opts.Driver.Start(bounded, w.template)
		p.started(w, attempt{number, fails, now, ctx.Err() != nil}, sandbox, err)
	})
}

// pause waits, or returns when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// attempt is one start: how many had failed in a row when it was asked for, and
// whether the pool's end came before its own.
type attempt struct {
	number  uint64
	fails   int
	asked   time.Time
	givenUp bool
}

// started takes note of how a start ended.
func (p *Pool) started(w *warmPool, a attempt, sandbox Sandbox, err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.kick()
	delete(p.starts, a.number)
	w.starting--
	p.metrics.starts.Observe(now.Sub(a.asked).Seconds())
	if err == nil {
		err = p.unique(sandbox.ID())
	}
	if err != nil {
		// A start that was given up is no failure.
		if w.dropped == "" && !p.stopping && !a.givenUp {
			p.startFailed(w, a.fails, err, now)
		}
		return
	}
	r := &record{id: sandbox.ID(), sandbox: sandbox, home: w, state: warm, asked: a.asked}
	delete(p.suspects, r.id)
	p.records[r.id] = r
	p.counts[warm]++
	w.warm = append(w.warm, r)
	w.demand.started(now.Sub(a.asked))
	if w.fails > 0 {
		p.log.Info("starts succeed again", "template", w.key, "after_failures", w.fails)
	}
	w.fails, w.retryAt, w.failure, w.typed = 0, time.Time{}, nil, false
	if w.dropped != "" {
		p.end(r, w.dropped)
		return
	}
	p.serve(w, now)
}

// unique refuses an id that was seen before: what bears it may have run code.
func (p *Pool) unique(id string) error {
	_, stands := p.records[id]
	if !stands && !p.ended.Contains(id) {
		return nil
	}
	if !stands {
		p.orphan(id)
	}
	return fmt.Errorf("the driver gave the id %q twice", id)
}

// startFailed puts off the next start and tells those who wait. Of several
// starts asked for at once, one failure counts.
func (p *Pool) startFailed(w *warmPool, fails int, err error, now time.Time) {
	p.metrics.startFailures.Inc()
	if fails == w.fails {
		w.fails++
		w.retryAt = now.Add(backoff(w.fails, rand.Float64()))
	}
	e, typed := errors.AsType[*api.Error](err)
	if typed {
		_, passes := errors.AsType[accident](err)
		typed = !passes
	} else {
		e = api.Errorf(api.NoCapacity, "cannot start a sandbox: %w", err)
	}
	told := *e
	told.Executed = api.No
	w.failure, w.typed = &told, typed
	p.log.Warn("cannot start a sandbox", "template", w.key, "failures", w.fails,
		"retry_ms", max(0, w.retryAt.Sub(now).Milliseconds()), "error", err)
	// While others start, those who wait may be served by them.
	if refusal := w.refusal(now); w.starting == 0 && refusal != nil {
		p.refuseAll(w, refusal)
	}
}
