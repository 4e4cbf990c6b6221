package server

import (
	"context"
	"net"
	"net/http"
)

type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// held makes connections of all kinds one kind, which atomic.Value wants.
type held struct{ net.Conn }

func connectionOf(r *http.Request) held {
	c, ok := r.Context().Value(connectionKey{}).(net.Conn)
	if !ok {
		panic("BUG: a request without a connection")
	}
	return held{c}
}

// watchPool sees the pool hang up before the run: it or its node has died, or it
// needs this sandbox no longer. No other adopts the sandbox, which would hold
// its memory and processor until somebody deletes it.
func (s *Server) watchPool(c net.Conn, state http.ConnState) {
	if state != http.StateClosed || s.pool.Load() != any(held{c}) {
		return
	}
	select {
	case s.left <- struct{}{}:
	default:
	}
}
