package main

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/code-sandbox/code-sandbox/pool/egress"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

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
