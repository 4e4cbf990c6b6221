package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// dialTimeout bounds the wait for an address in the node.
const dialTimeout = 5 * time.Second

// startRelay passes connections from a listener of the machine to an address
// in the node. The listener was opened in the machine's network namespace and
// stays there; so the machine needs no interface, no address and no route for
// the node, and nothing but the listener ends with it.
func startRelay(ctx context.Context, fd uintptr, target, resolver string, log hclog.Logger) error {
	file := os.NewFile(fd, "listener")
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("cannot take over listener %d: %w", fd, err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("cannot take over listener %d: %w", fd, err)
	}
	dial := func(net.Conn) (net.Conn, error) { return net.DialTimeout("tcp", target, dialTimeout) }
	if target == "" {
		dial = newSocks(resolver).open
	}
	go accept(ctx, listener, dial, log)
	return nil
}

func accept(ctx context.Context, listener net.Listener, dial func(net.Conn) (net.Conn, error), log hclog.Logger) {
	for ctx.Err() == nil {
		c, err := listener.Accept()
		if err != nil {
			log.Error("cannot accept", "error", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go func() {
			defer c.Close()
			to, err := dial(c)
			if err != nil {
				log.Debug("cannot reach", "error", err)
				return
			}
			defer to.Close()
			splice(c, to)
		}()
	}
}

// splice copies both ways. The end of one direction is passed on; both ends
// are closed once both directions have ended.
func splice(a, b net.Conn) {
	var wg sync.WaitGroup
	one := func(to, from net.Conn) {
		if _, err := io.Copy(to, from); err != nil && !errors.Is(err, net.ErrClosed) {
			// The other direction would wait for ever on a broken connection.
			a.Close()
			b.Close()
			return
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	wg.Go(func() { one(a, b) })
	wg.Go(func() { one(b, a) })
	wg.Wait()
}
