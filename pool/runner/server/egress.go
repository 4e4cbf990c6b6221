package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// listenProxy opens the port at which a program with Egress finds its proxy,
// before there is anybody else who could. The proxy itself is the pool's: it
// fetches each connection by carry, and so the pod needs no way out.
func (s *Server) listenProxy(program *wire.Copy) *api.Error {
	if program.Egress == nil {
		return nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.config.ProxyPort)))
	if err != nil {
		return api.Errorf(api.Internal, "cannot listen for the program's connections to its proxy: %w", err)
	}
	s.proxied = make(chan net.Conn)
	go func() {
		defer l.Close() //nolint:errcheck // this process ends
		for {
			conn, err := l.Accept()
			if err != nil {
				return // this process has no descriptor left: it is about to end
			}
			select {
			case s.proxied <- conn:
			case <-s.finished:
				conn.Close()
				return
			}
		}
	}()
	return nil
}

// farewell is what the program gets to read the last words of a connection that the
// pool has ended: closed at once, they would be lost to what it still sends.
const farewell = 500 * time.Millisecond

// carry waits for the next connection of the program to its proxy, and carries
// its bytes until both ways have ended, or shortly after the pool's has: it never
// ends one alone, and a program that keeps the other would keep a place.
func (s *Server) carry(w http.ResponseWriter, r *http.Request) {
	if !s.isReady(w, r) {
		return
	}
	if s.proxied == nil {
		refuse(w, http.StatusConflict, api.Errorf(api.Conflict, "this copy has no proxy: its program may reach nothing"))
		return
	}
	var program net.Conn
	select {
	case program = <-s.proxied:
	case <-s.finished:
		gone(w)
		return
	case <-r.Context().Done():
		return
	}
	defer program.Close()
	pool, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the pool has gone
	}
	defer pool.Close()
	if pool.SetDeadline(time.Time{}) != nil {
		return
	}
	if _, err := fmt.Fprintf(pool, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol.Tunnel); err != nil {
		return
	}
	var ways sync.WaitGroup
	ways.Go(func() {
		oneWay(program, early)
		_ = program.SetReadDeadline(time.Now().Add(farewell)) // fails only on a closed connection
	})
	oneWay(pool, program)
	ways.Wait()
}

// oneWay copies until the end, and passes the end on. Of a way that is broken the
// other is of no use.
func oneWay(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		err = half.CloseWrite()
	} else if err == nil {
		err = errors.ErrUnsupported
	}
	if err != nil {
		to.Close()
	}
}
