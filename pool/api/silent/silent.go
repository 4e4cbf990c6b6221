// Package silent closes connections on which nothing was asked. Servers that
// shut down wait 5 s for a new connection's first request, net/http and fasthttp
// alike; a client that dialled twice for one request leaves such a connection.
package silent

import (
	"net"
	"sync"
	"time"
)

// Grace is how long a connection may still take to send its first request when
// its server is being closed.
const Grace = 500 * time.Millisecond

// Conns are a server's connections that have sent nothing yet. The zero value
// is ready to use.
type Conns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// Note keeps c while it is new, and forgets it when it is anything else.
func (s *Conns) Note(c net.Conn, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isNew {
		delete(s.conns, c)
		return
	}
	if s.conns == nil {
		s.conns = map[net.Conn]struct{}{}
	}
	s.conns[c] = struct{}{}
}

// CloseSoon closes those that are silent still after the grace; stop calls it off.
func (s *Conns) CloseSoon() (stop func() bool) {
	return time.AfterFunc(Grace, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			_ = c.Close()
		}
	}).Stop
}
