// Package egress lets copies reach the hosts that their tool is granted, and
// nothing else: an HTTP proxy that a sandbox finds inside of its own network, and
// that looks names up itself and judges the addresses that it connects to.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

// Bounds on the connections of one sandbox.
const (
	maxOpen     = 32
	maxRequests = 1000 // in its whole life
	// maxConnections of the sandbox in its whole life are more than requests: who
	// makes one for each is told of their bound. Later ones have no answer.
	maxConnections = maxRequests + 100
	maxDenied      = 20       // hosts that are told of
	headerBytes    = 64 << 10 // of a request
	dialTimeout    = 10 * time.Second
	headTimeout    = 10 * time.Second // for a request's head to come
	idleTimeout    = 2 * time.Minute  // without a byte from the host
)

// MaxBytes is what one sandbox may send and receive together, by default.
const MaxBytes = 256 << 20

// Options is all that a Proxy needs.
type Options struct {
	// Lookup finds the addresses of a name; nil asks this machine's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Own lists this machine's addresses; nil asks the kernel.
	Own func() []netip.Addr
	// Private are the closed addresses that a grant opens by naming them; nil is
	// all of those that can be opened at all.
	Private []netip.Prefix
	// Never are further addresses that nothing is sent to, whatever a grant names.
	Never []netip.Prefix
	// Bytes bounds what one sandbox sends and receives together; MaxBytes when zero.
	Bytes    int64
	Logger   hclog.Logger
	Registry prometheus.Registerer
}

// Proxy serves all sandboxes.
type Proxy struct {
	opts    Options
	metrics *metrics
}

// New makes a Proxy.
func New(o Options) (*Proxy, error) {
	if o.Logger == nil || o.Registry == nil {
		return nil, errors.New("cannot make an egress proxy without a Logger and a Registry")
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Own == nil {
		o.Own = own
	}
	if o.Bytes == 0 {
		o.Bytes = MaxBytes
	}
	m, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	return &Proxy{opts: o, metrics: m}, nil
}

// judge says why nothing may be sent to an address, or nil. named says that a
// grant of the tool names the address itself; own are this machine's addresses.
func (p *Proxy) judge(a netip.Addr, named bool, own []netip.Addr) error {
	for _, never := range p.opts.Never {
		if never.Contains(a.Unmap()) {
			return fmt.Errorf("%s is closed by the settings of the proxy", a)
		}
	}
	if p.opts.Private != nil && !slices.ContainsFunc(p.opts.Private, func(open netip.Prefix) bool { return open.Contains(a.Unmap()) }) {
		named = false
	}
	return Address(a, named, own)
}

// own lists the addresses of this machine's interfaces.
func own() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // the fixed table of closed addresses holds all the same
	}
	var found []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			found = append(found, p.Addr())
		}
	}
	return found
}
