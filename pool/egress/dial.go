package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Why a connection is not made.
var (
	errDenied = errors.New("denied")
	errBytes  = errors.New("this call has sent and received as much as one may")
)

// dial connects to HOST:PORT when it is granted. The address that is judged is
// the one that is connected to: the name is not looked up again.
func (s *Session) dial(ctx context.Context, _, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is not HOST:PORT", errDenied, target)
	}
	if host, err = wire.ParseHost(host); err != nil {
		return nil, fmt.Errorf("%w: %w", errDenied, err)
	}
	if !slices.Contains(s.egress.Hosts, net.JoinHostPort(host, port)) {
		return nil, fmt.Errorf("%w: %s is not granted to tool %q", errDenied, net.JoinHostPort(host, port), s.egress.Tool)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addresses, err := s.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	own := s.proxy.opts.Own()
	var failure error
	for _, a := range addresses {
		a = a.Unmap()
		place := net.JoinHostPort(a.String(), port)
		if why := s.proxy.judge(a, slices.Contains(s.egress.Hosts, place), own); why != nil {
			failure = errors.Join(failure, fmt.Errorf("%w: %s leads to an address that is closed: %w", errDenied, host, why))
			continue
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", place)
		if err != nil {
			failure = errors.Join(failure, err)
			continue
		}
		return &counted{Conn: conn, session: s}, nil
	}
	return nil, failure
}

// addresses are what a host leads to: itself, or what its name is looked up to.
func (s *Session) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	found, err := s.proxy.opts.Lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("cannot look up %s: %w", host, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("cannot look up %s: it has no address", host)
	}
	return found, nil
}

// counted is a connection to a granted host. It ends when it is idle, and when
// the session's bytes are used up.
type counted struct {
	net.Conn
	session *Session
}

func (c *counted) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(idleTimeout)) // fails only on a closed connection, as the read will
	n, err := c.Conn.Read(b)
	return n, c.count(&c.session.received, n, err)
}

func (c *counted) Write(b []byte) (int, error) {
	if c.session.left.Load() < int64(len(b)) {
		return 0, errBytes
	}
	_ = c.SetWriteDeadline(time.Now().Add(idleTimeout))
	n, err := c.Conn.Write(b)
	return n, c.count(&c.session.sent, n, err)
}

func (c *counted) count(total *atomic.Int64, n int, err error) error {
	total.Add(int64(n))
	if c.session.left.Add(-int64(n)) < 0 {
		return errors.Join(errBytes, err)
	}
	return err
}
