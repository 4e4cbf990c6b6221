package pool

import "time"

// Ahead has a sandbox of an owner's template made before it is claimed, as far as
// there is room: what does not fit is not made, and nobody is told. One that is
// not claimed goes when its owner is forgotten, and after Options.TemplateIdle,
// however often it is told of meanwhile: others may have more use for its place.
func (p *Pool) Ahead(t Template) {
	key, now := t.Key(), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.pools.Peek(key); ok {
		if !w.ahead {
			p.pools.Get(key) // what was called of is the last used again
			w.used = now
		}
		return
	}
	if p.stopping || t.Owner == (Caller{}) || t.Limits.MaxRun <= 0 || !p.fits(t) || !p.mayAhead(t.Owner) {
		return
	}
	w := newWarmPool(t, key, p.target(t), now)
	w.ahead = true
	p.pools.Add(key, w)
	p.log.Info("template added ahead of its first use", "template", key, "image", t.Image)
	p.kick()
}

// mayAhead says whether the owner may have one more template that nobody has
// claimed of. One that cannot start has no copy, and so no place. The caller holds
// the lock.
func (p *Pool) mayAhead(owner Caller) bool {
	has, all := newShares(), 0
	for _, w := range p.pools.Values() {
		if !w.ahead || w.refusedForGood() {
			continue
		}
		all++
		has.count(w.template.Owner, 1)
	}
	return has.callers[owner] < p.opts.AheadPerCaller && has.tenants[owner.Tenant] < p.opts.AheadPerTenant && all < max(1, p.opts.Max/4)
}

// aheadLast lets what was told of ahead be made one by one for each owner, once all
// else of its owner is there: the import of one would slow the others down.
func aheadLast(pools []*warmPool, all []stock) {
	busy := map[Caller]bool{}
	for _, w := range pools {
		if w.starting > 0 || !w.queue.empty() {
			busy[w.template.Owner] = true
		}
	}
	for i, w := range pools {
		if !w.ahead {
			continue
		}
		if busy[w.template.Owner] {
			all[i].most = 0
		}
		if _, total := all[i].short(); total > 0 && all[i].most > 0 {
			busy[w.template.Owner] = true
		}
	}
}
