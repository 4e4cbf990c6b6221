package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// canaryBound is how long the pool's own canary may take to answer the pool.
const canaryBound = 2 * time.Second

// canary is a listener that everybody in the cluster reaches, but no sandbox.
// That a sandbox cannot reach it shows something only while it is known to be
// alive: the pool dials it, at the address that sandboxes are given.
type canary struct {
	listener net.Listener
	address  string
}

func listenCanary(listen, address string) (*canary, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for canary connections: %w", err)
	}
	return &canary{listener: l, address: address}, nil
}

// serve accepts and hangs up: that it answers is all there is to know.
func (c *canary) serve(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { _ = c.listener.Close() })()
	for {
		conn, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, perhaps: it passes, and proofs fail until then
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		conn.Close()
	}
}

// alive says that the canary answers. Without a canary there is nothing to ask.
func (c *canary) alive(ctx context.Context) error {
	if c == nil {
		return nil
	}
	dialer := net.Dialer{Timeout: canaryBound}
	conn, err := dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return fmt.Errorf("the pool's own canary does not answer the pool: %w", err)
	}
	conn.Close()
	return nil
}
