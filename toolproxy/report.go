package toolproxy

import (
	"cmp"
	"slices"
	"time"
)

// maxUsage bounds the tools whose calls are counted one by one.
const maxUsage = 1000

// Used is what became of the calls of one tool.
type Used struct {
	Tool, Framework string
	Calls, Failed   int // Failed are those with an error of ours
	Warm            int // served by a copy that was ready
	Took            time.Duration
	Audited         int64 // ran in the agent, in audit mode, instead of elsewhere or nowhere
}

type usage map[[2]string]*Used

// note counts one call.
func (p *Proxy) note(c *prepared, outcome string, warm bool, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.used(c.request.Tool, c.request.Framework)
	if u == nil {
		return
	}
	u.Calls++
	u.Took += took
	if outcome != "ok" && outcome != "raised" {
		u.Failed++
	}
	if warm {
		u.Warm++
	}
}

// used is where the calls of a tool are counted; nil beyond maxUsage. The caller
// holds the lock.
func (p *Proxy) used(tool, framework string) *Used {
	key := [2]string{clip(tool), clip(framework)}
	u := p.usage[key]
	if u == nil && len(p.usage) < maxUsage {
		u = &Used{Tool: key[0], Framework: key[1]}
		p.usage[key] = u
	}
	return u
}

// audited counts the calls that a process tells of beyond those of its earlier
// record, which is nil for the first. The caller holds the lock.
func (p *Proxy) audited(earlier, now *boot) {
	before := map[toolKey]int64{}
	if earlier != nil {
		for _, t := range earlier.record.Tools {
			before[t.key()] = t.Audited
		}
	}
	for _, t := range now.record.Tools {
		more := t.Audited - before[t.key()]
		if more <= 0 {
			continue
		}
		p.metrics.audited.WithLabelValues(decision(t.Decision)).Add(float64(more))
		if u := p.used(t.Tool, t.Framework); u != nil {
			u.Audited += more
		}
		p.log.Info("tool calls audited", "tool", clip(t.Tool), "framework", clip(t.Framework), "decision", decision(t.Decision), "calls", more)
	}
}

// Used lists the tools that were called, by name.
func (p *Proxy) Used() []Used {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Used
	for _, u := range p.usage {
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b Used) int { return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Framework, b.Framework)) })
	return all
}

// Tools lists the tools of all processes that are remembered, each once, with
// the last word on it and the sum of its audited calls.
func (p *Proxy) Tools() []Tool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, at := []Tool{}, map[toolKey]int{}
	for _, b := range p.boots.Values() {
		for _, t := range b.record.Tools {
			k := t.key()
			if i, ok := at[k]; ok {
				t.Audited += all[i].Audited
				all[i] = t
				continue
			}
			at[k] = len(all)
			all = append(all, t)
		}
	}
	return all
}

// Boot names a process that said hello.
type Boot struct {
	ID    string    `json:"boot_id"`
	PID   int       `json:"pid"`
	Heard time.Time `json:"heard"`
}

// Boots lists the processes that are remembered, the last used last.
func (p *Proxy) Boots() []Boot {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []Boot{}
	for _, b := range p.boots.Values() {
		all = append(all, Boot{b.record.ID, b.record.PID, b.heard})
	}
	return all
}

// Frameworks lists the frameworks of all processes that are remembered.
func (p *Proxy) Frameworks() []Framework {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []Framework{}
	for _, b := range p.boots.Values() {
		for _, f := range b.record.Frameworks {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}
