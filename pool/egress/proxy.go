// Package egress lets copies reach the hosts that their tool is granted, and
// nothing else: an HTTP proxy that listens inside of a sandbox's own network,
// looks names up itself and judges the addresses that it connects to.
package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

// Port is where the proxy listens inside of a sandbox, on 127.0.0.1.
const Port = 3128

// Bounds on the connections of one sandbox.
const (
	maxOpen     = 32
	maxRequests = 1000     // in its whole life
	maxDenied   = 20       // hosts that are told of
	headerBytes = 64 << 10 // of a request
	dialTimeout = 10 * time.Second
	headTimeout = 10 * time.Second // for a request's head to come
	idleTimeout = 2 * time.Minute  // without a byte from the host
)

// MaxBytes is what one sandbox may send and receive together, by default.
const MaxBytes = 256 << 20

// Options is all that a Proxy needs.
type Options struct {
	// Lookup finds the addresses of a name; nil asks this machine's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Own lists this machine's addresses; nil asks the kernel.
	Own func() []netip.Addr
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
