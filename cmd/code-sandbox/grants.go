package main

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/egress"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

// grants is a flag of TOOL=HOST[:PORT][,HOST...], which can be repeated.
type grants []toolproxy.Grant

func (g *grants) Set(text string) error {
	for word := range strings.FieldsSeq(text) {
		grant, err := toolproxy.ParseGrant(word)
		if err != nil {
			return err
		}
		if err := open(grant); err != nil {
			return err
		}
		*g = append(*g, grant)
	}
	return nil
}

// open refuses addresses that no grant opens.
func open(g toolproxy.Grant) error {
	for _, host := range g.Hosts {
		name, _, err := net.SplitHostPort(host)
		if err != nil {
			return err
		}
		a, err := netip.ParseAddr(name)
		if err != nil {
			continue // a name; what it leads to is judged when it is used
		}
		if why := egress.Address(a, true, nil); why != nil {
			return fmt.Errorf("cannot grant %q an address that is closed to all: %w", g.Tool, why)
		}
	}
	return nil
}

func (g *grants) String() string {
	words := make([]string, 0, len(*g))
	for _, one := range *g {
		words = append(words, one.Tool+"="+strings.Join(one.Hosts, ","))
	}
	return strings.Join(words, " ")
}
