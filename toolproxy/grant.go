package toolproxy

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Grant lets the copies of a tool reach hosts, and gives them nothing to show
// there: no credential comes with it.
type Grant struct {
	// Tool is a glob on a tool's name or its module:qualname.
	Tool string
	// Hosts are HOST:PORT.
	Hosts []string
}

// ParseGrant reads TOOL=HOST[:PORT][,HOST[:PORT]…]. A host without a port stands
// for ports 80 and 443.
func ParseGrant(text string) (Grant, error) {
	tool, hosts, ok := strings.Cut(text, "=")
	g := Grant{Tool: strings.TrimSpace(tool)}
	if _, err := path.Match(g.Tool, ""); err != nil || g.Tool == "" || !ok {
		return Grant{}, fmt.Errorf("the grant %q is not TOOL=HOST[:PORT][,HOST[:PORT]]", text)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		parsed, err := wire.ParseHosts(host)
		if err != nil {
			return Grant{}, fmt.Errorf("the grant %q cannot be: %w", text, err)
		}
		g.Hosts = append(g.Hosts, parsed...)
	}
	return g, nil
}

// egress is what the grants let a tool reach; nil is nothing. Tool in it is the
// first grant's word, of which there are only so many.
func (p *Policy) egress(tool string, target json.RawMessage) *wire.Egress {
	var t struct{ Module, Qualname string }
	if json.Unmarshal(target, &t) != nil {
		return nil
	}
	var e *wire.Egress
	for _, g := range p.Grants {
		if !slices.ContainsFunc([]string{tool, t.Module + ":" + t.Qualname}, func(name string) bool {
			ok, err := path.Match(g.Tool, name)
			return ok && err == nil
		}) {
			continue
		}
		if e == nil {
			e = &wire.Egress{Tool: g.Tool}
		}
		e.Hosts = append(e.Hosts, g.Hosts...)
	}
	if e != nil {
		slices.Sort(e.Hosts)
		e.Hosts = slices.Compact(e.Hosts)
	}
	return e
}
