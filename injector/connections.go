package injector

import (
	"net"
	"sync"

	"golang.org/x/net/netutil"
)

// Bounds of the connections. An API server asks over few of them, each for many
// reviews at once.
const (
	maxConnections = 1024
	// maxNeighbour is what an address may have: no pod can take them all.
	maxNeighbour = 64
)

// neighbours is a listener that lets no address have too many connections: more
// are closed at once, and none of the others has to wait.
type neighbours struct {
	net.Listener
	mu   sync.Mutex
	open map[string]int // by address
}

func newNeighbours(l net.Listener) *neighbours {
	return &neighbours{Listener: netutil.LimitListener(l, maxConnections), open: map[string]int{}}
}

// Accept returns the next connection that there is room for.
func (n *neighbours) Accept() (net.Conn, error) {
	for {
		c, err := n.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err == nil && n.enter(host) {
			return &neighbour{Conn: c, leave: sync.OnceFunc(func() { n.leave(host) })}, nil
		}
		_ = c.Close()
	}
}

func (n *neighbours) enter(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[host] >= maxNeighbour {
		return false
	}
	n.open[host]++
	return true
}

func (n *neighbours) leave(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[host]--; n.open[host] == 0 {
		delete(n.open, host)
	}
}

// neighbour is a connection that counts until it is closed.
type neighbour struct {
	net.Conn
	leave func()
}

func (n *neighbour) Close() error {
	defer n.leave()
	return n.Conn.Close()
}
