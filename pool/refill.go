package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// refill starts what is missing and ends what is too much. It returns when a
// template that failed is due again; zero is never.
func (p *Pool) refill(ctx context.Context, now time.Time) (next time.Time) {
	if p.stopping {
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
			wanted: w.wanted, most: p.allowed(w, now), turn: w.lastStart,
		}
		if w.retryAt.After(now) {
			next = earlier(w.retryAt, next)
		}
	}
	free := p.opts.Max - len(p.records) - len(p.starts)
	slots := p.opts.MaxStarting - len(p.starts)
	starts, unmet := plan(all, min(free, slots))
	for i, n := range starts {
		for range n {
			p.start(ctx, pools[i], now)
		}
	}
	if slots > free {
		p.makeRoom(pools, unmet-p.counts[destroying])
	}
	return next
}

// allowed bounds the starts asked for at once: one when the last failed, and
// none before its back-off is over. The first copy of a program starts alone:
// it imports the program, and others beside it would only slow it down, or fail
// as it does.
func (p *Pool) allowed(w *warmPool, now time.Time) int {
	switch {
	case w.fails == 0 && w.template.Copy != nil && w.demand.toWarm == 0:
		return max(0, 1-w.starting)
	case w.fails == 0:
		return p.opts.MaxStarting
	case w.starting > 0 || now.Before(w.retryAt):
		return 0
	}
	return 1
}

// makeRoom ends up to n warm sandboxes of templates nobody waits for, so that
// those who wait get one: the least recently used template gives first.
func (p *Pool) makeRoom(pools []*warmPool, n int) {
	for _, w := range pools {
		for n > 0 && len(w.warm) > 0 && w.queue.empty() {
			p.end(w.warm[0], causeRoom)
			n--
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
	p.work.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, p.opts.StartTimeout)
		defer cancel()
		sandbox, err := p.opts.Driver.Start(ctx, w.template)
		p.started(w, number, fails, now, sandbox, err)
	})
}

// started takes note of how a start ended. fails is how many had failed in a
// row when it was asked for.
func (p *Pool) started(w *warmPool, number uint64, fails int, asked time.Time, sandbox Sandbox, err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.kick()
	delete(p.starts, number)
	w.starting--
	p.metrics.starts.Observe(now.Sub(asked).Seconds())
	if err == nil {
		err = p.unique(sandbox.ID())
	}
	if err != nil {
		p.startFailed(w, fails, err, now)
		return
	}
	r := &record{id: sandbox.ID(), sandbox: sandbox, home: w, state: warm, asked: asked}
	delete(p.suspects, r.id)
	p.records[r.id] = r
	p.counts[warm]++
	w.warm = append(w.warm, r)
	w.demand.started(now.Sub(asked))
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
	if w.dropped != "" || p.stopping { // a start that was given up is no failure
		return
	}
	p.metrics.startFailures.Inc()
	if fails == w.fails {
		w.fails++
		w.retryAt = now.Add(backoff(w.fails, rand.Float64()))
	}
	e, typed := errors.AsType[*api.Error](err)
	if !typed {
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
