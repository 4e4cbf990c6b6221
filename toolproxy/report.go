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
}

type usage map[[2]string]*Used

// note counts one call.
func (p *Proxy) note(c *prepared, outcome string, warm bool, took time.Duration) {
	key := [2]string{clip(c.request.Tool), clip(c.request.Framework)}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.usage[key]
	if u == nil {
		if len(p.usage) >= maxUsage {
			return
		}
		u = &Used{Tool: key[0], Framework: key[1]}
		p.usage[key] = u
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
// the last word on it.
func (p *Proxy) Tools() []Tool {
	type key struct {
		module, qualname, tool string
		line, ordinal          int
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all, at := []Tool{}, map[key]int{}
	for _, b := range p.boots.Values() {
		for _, t := range b.record.Tools {
			k := key{t.Module, t.Qualname, t.Tool, t.Line, t.Ordinal}
			if i, ok := at[k]; ok {
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
