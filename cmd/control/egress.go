package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/egress"
)

// closeEgress reads which addresses the proxy opens and closes beyond its own
// list. What sandboxes must not reach by themselves they do not reach by it.
func (o *poolOptions) closeEgress() (err error) {
	if o.egressClosed.Private, err = prefixes("egress-private", o.egressPrivate); err != nil {
		return err
	}
	if o.egressClosed.Never, err = prefixes("egress-deny", o.egressDeny); err != nil {
		return err
	}
	// They are closed for grants, too, where no sandbox has to prove that it does not reach them.
	for _, canary := range o.canaries {
		place, err := netip.ParseAddrPort(canary)
		if err != nil {
			return fmt.Errorf("--canaries has %q; it must be addresses such as 10.0.0.1:443: %w", canary, err)
		}
		o.never(place.Addr())
	}
	for _, host := range []string{os.Getenv("KUBERNETES_SERVICE_HOST"), o.podIP} {
		if a, err := netip.ParseAddr(host); err == nil { // what is none says its own flag
			o.never(a)
		}
	}
	return o.neverOwn()
}

// neverOwn closes this machine: what its ports serve, metrics for one, is not for
// tools, whatever addresses of its network a grant may name.
func (o *poolOptions) neverOwn() error {
	o.egressClosed.Never = append(o.egressClosed.Never, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	all, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("cannot list the addresses of this machine, which grants must not open: %w", err)
	}
	for _, one := range all {
		p, err := netip.ParsePrefix(one.String())
		if err != nil {
			return fmt.Errorf("cannot read the address %q of this machine, which grants must not open: %w", one, err)
		}
		o.never(p.Addr())
	}
	return nil
}

// never closes one address.
func (o *poolOptions) never(a netip.Addr) {
	a = a.Unmap()
	o.egressClosed.Never = append(o.egressClosed.Never, netip.PrefixFrom(a, a.BitLen()))
}

// prefixes are the addresses of a flag. The list is never nil, which would be all.
func prefixes(flag string, words []string) ([]netip.Prefix, error) {
	all := []netip.Prefix{}
	for _, word := range words {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, fmt.Errorf("--%s has %q; it must be addresses such as 10.1.0.0/16: %w", flag, word, err)
		}
		if p.Addr().Is4In6() { // it would be held against no address at all
			return nil, fmt.Errorf("--%s has %q; write addresses of IPv4 as such, as in 10.1.0.0/16", flag, word)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// proxy serves the tools that are granted hosts; nil where none is.
func (s *poolService) proxy() (*egress.Proxy, error) {
	if s.opts.egress != "on" {
		return nil, nil
	}
	o := s.opts.egressClosed
	o.Lookup = lookUp
	o.Logger, o.Registry = s.log.Named("egress"), s.registry
	return egress.New(o)
}

// lookUp takes a name of several parts as it is: the cluster's search list would
// ask for it among the Services first.
func lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", absolute(host))
}

func absolute(host string) string {
	if strings.Contains(host, ".") && !strings.HasSuffix(host, ".") {
		return host + "."
	}
	return host
}
