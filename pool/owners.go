package pool

import (
	"slices"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// holdings counts the sandboxes that stand or start now. The caller holds the
// lock.
func (p *Pool) holdings(pools []*warmPool) shares {
	has := newShares()
	for _, r := range p.records {
		if r.home != nil {
			has.count(r.home.template.Owner, 1)
		}
	}
	for _, w := range pools {
		has.count(w.template.Owner, w.starting)
	}
	return has
}

// add counts one more for the owner, unless the owner or its tenant has all that
// it may have.
func (s shares) add(owner Caller, o Options) bool {
	if s.callers[owner] >= o.OwnedPerCaller || s.tenants[owner.Tenant] >= o.OwnedPerTenant {
		return false
	}
	s.count(owner, 1)
	return true
}

// boundOwned lowers what may be started of templates that have an owner to what
// the owner and its tenant may still have, beside what has says: first for those
// who wait, then for stock, of the last used first. Who waits in vain gets the
// place of a warm one.
func (p *Pool) boundOwned(pools []*warmPool, all []stock, has shares) {
	var owned []int
	for i, w := range pools {
		if w.template.Owner != (Caller{}) {
			owned = append(owned, i)
		}
	}
	if len(owned) == 0 {
		return
	}
	has, granted := has.clone(), make([]int, len(pools))
	grant := func(i, want int) (all bool) {
		for granted[i] < want && has.add(pools[i].template.Owner, p.opts) {
			granted[i]++
		}
		return granted[i] >= want
	}
	for _, i := range owned {
		callers, _ := all[i].short()
		if owner := pools[i].template.Owner; !grant(i, min(callers, all[i].most)) {
			p.yield(pools, owner, has.callers[owner] >= p.opts.OwnedPerCaller)
		}
	}
	for _, i := range slices.Backward(owned) {
		_, total := all[i].short()
		grant(i, min(total, all[i].most))
		all[i].most = granted[i]
	}
}

// yield ends a warm sandbox of the owner's, or of its tenant's, of the least
// recently used template that nobody waits for. Its place is free once it is gone.
func (p *Pool) yield(pools []*warmPool, owner Caller, ofOwner bool) {
	if p.counts[destroying] > 0 {
		return // a place may be about to be free
	}
	for _, other := range pools {
		of := other.template.Owner
		if of.Tenant != owner.Tenant || of == (Caller{}) || ofOwner && of != owner {
			continue
		}
		if len(other.warm) > 0 && other.queue.empty() {
			p.end(other.warm[0], causeRoom)
			return
		}
	}
}

// Forget drains what is kept for an owner that has gone. Runs in flight go on to
// their end.
func (p *Pool) Forget(owner Caller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.pools.Values() {
		if w.template.Owner == owner && owner != (Caller{}) && !w.pinned {
			p.refuseAll(w, errLeftBehind())
			p.drop(w, causeTemplate)
		}
	}
}

func errLeftBehind() *api.Error {
	return api.Errorf(api.SandboxLost, "cannot claim a sandbox: the one that it is for is gone").After(time.Second)
}
