package toolproxy

import (
	"bytes"
	"encoding/json"
)

// maxAhead bounds the functions of one process whose copies are asked for before
// a call.
const maxAhead = 2

// foreseen is a tool whose next call will run in a copy, and what that call sends.
type foreseen struct {
	tool   string
	target json.RawMessage
}

// foreseen takes the targets out of the record, and keeps those that a call could
// have.
func (r *bootRecord) foreseen() (all []foreseen) {
	for i := range r.Tools {
		t := &r.Tools[i]
		target := bytes.TrimSpace(t.Target)
		t.Target = nil
		if t.Decision == "sandboxed" && len(all) < maxAhead && len(target) > 0 && target[0] == '{' && len(target) <= maxTarget {
			all = append(all, foreseen{t.Tool, compact(target)})
		}
	}
	return all
}

// ahead tells which copies the first calls of a process will be asked for.
func (p *Proxy) ahead(b *boot) {
	all := b.ahead
	b.ahead = nil // they would stay in memory with it
	if p.opts.Ahead == nil || p.opts.Policy.Mode != Enforce {
		return
	}
	for _, f := range all {
		c := b.copy(f.target)
		c.Egress = p.opts.Policy.egress(f.tool, f.target)
		p.opts.Ahead(c)
	}
}
