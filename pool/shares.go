package pool

import (
	"cmp"
	"maps"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// shares counts something by whom it is for alone. What is everybody's has a
// share like one tenant's.
type shares struct {
	callers map[Caller]int
	tenants map[string]int
}

func newShares() shares { return shares{callers: map[Caller]int{}, tenants: map[string]int{}} }

func (s shares) count(owner Caller, n int) {
	s.callers[owner] += n
	s.tenants[owner.Tenant] += n
}

func (s shares) clone() shares { return shares{maps.Clone(s.callers), maps.Clone(s.tenants)} }

// compare is positive when a has more than b: its tenant, or, of two of one
// tenant, itself.
func (s shares) compare(a, b Caller) int {
	if a.Tenant != b.Tenant {
		return cmp.Compare(s.tenants[a.Tenant], s.tenants[b.Tenant])
	}
	return cmp.Compare(s.callers[a], s.callers[b])
}

// largest is the first of the pools that fit whose owner has no less than any
// other's; nil when none fits.
func (s shares) largest(pools []*warmPool, fits func(*warmPool) bool) (best *warmPool) {
	for _, w := range pools {
		if fits(w) && (best == nil || s.compare(w.template.Owner, best.template.Owner) > 0) {
			best = w
		}
	}
	return best
}

// giver is the pool of which a warm sandbox is ended for a claim that waits: the
// least recently used one of whoever has most. One who has less than the owner of
// what is waited for, as a neighbour in its tenant may, gives only when nobody has
// as many: a claim comes before stock.
func (s shares) giver(pools []*warmPool, waiter Caller) *warmPool {
	idle := func(w *warmPool) bool { return len(w.warm) > 0 && w.queue.empty() }
	if w := s.largest(pools, func(w *warmPool) bool { return idle(w) && s.compare(w.template.Owner, waiter) >= 0 }); w != nil {
		return w
	}
	return s.largest(pools, idle)
}

// bound is how much of something the templates may have that are for one owner
// alone, for all owners of a tenant, and all together.
type bound struct {
	what                string
	of                  func(Template) int
	caller, tenant, all int
}

// bounds are all of what templates are kept within.
func (o Options) bounds() []bound {
	return []bound{
		{"templates", func(Template) int { return 1 }, o.TemplatesPerCaller, o.TemplatesPerTenant, o.MaxTemplates},
		{"bytes of templates", func(t Template) int { return t.Size }, o.BytesPerCaller, o.BytesPerTenant, o.MaxBytes},
	}
}

// full says what each has when t is one more of the pools, the limit that this is
// beyond, and who must give way for it; nil when there is room.
func (b bound) full(t Template, pools []*warmPool) (has shares, limit int, whose func(Caller) bool) {
	has, all, owner := newShares(), b.of(t), t.Owner
	for _, w := range pools {
		n := b.of(w.template)
		if all += n; !w.pinned {
			has.count(w.template.Owner, n)
		}
	}
	has.count(owner, b.of(t))
	everybody := owner == Caller{}
	switch {
	case !everybody && has.callers[owner] > b.caller:
		return has, b.caller, func(c Caller) bool { return c == owner }
	case !everybody && has.tenants[owner.Tenant] > b.tenant:
		return has, b.tenant, func(c Caller) bool { return c.Tenant == owner.Tenant }
	case all > b.all:
		return has, b.all, func(Caller) bool { return true }
	}
	return has, 0, nil
}

// fits says whether there is room for one more template.
func (p *Pool) fits(t Template) bool {
	pools := p.pools.Values()
	for _, b := range p.opts.bounds() {
		if _, _, whose := b.full(t, pools); whose != nil {
			return false
		}
	}
	return true
}

// roomFor drops templates, if it must, for one more of its owner's.
func (p *Pool) roomFor(t Template) *api.Error {
	for _, b := range p.opts.bounds() {
		if most := min(b.caller, b.tenant, b.all); b.of(t) > most {
			return api.Errorf(api.TooLarge, "cannot claim a sandbox: its template alone is %d %s, and there may be %d", b.of(t), b.what, most)
		}
		for dropped := true; dropped; {
			var err *api.Error
			if dropped, err = p.giveWay(b, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveWay drops one template, if it must, to keep within a bound with one more.
// The owner's own goes when the owner has all that it may have, one of its
// tenant's when they all have; else one of whoever has most. Nobody loses one to
// somebody who has as much: however many kinds of copies an agent asks for, they
// push out its own.
func (p *Pool) giveWay(b bound, t Template) (dropped bool, err *api.Error) {
	pools := p.pools.Values() // the last used comes last
	has, limit, whose := b.full(t, pools)
	if whose == nil {
		return false, nil
	}
	gives := has.largest(pools, func(w *warmPool) bool {
		owner := w.template.Owner
		return !w.pinned && w.queue.empty() && b.of(w.template) > 0 && whose(owner) && has.compare(owner, t.Owner) >= 0
	})
	if gives == nil {
		return false, api.Errorf(api.NoCapacity, "cannot claim a sandbox: all %d %s that there may be are in use", limit, b.what).After(5 * time.Second)
	}
	p.drop(gives, causeTemplate)
	return true, nil
}
