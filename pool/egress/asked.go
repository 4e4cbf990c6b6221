package egress

import (
	"context"
	"net"
	"sync"
)

// dialAsked is dial for requests, whose hosts answer and do not begin.
func (s *Session) dialAsked(ctx context.Context, network, target string) (net.Conn, error) {
	conn, err := s.dial(ctx, network, target)
	if err != nil {
		return nil, &dialError{err}
	}
	return &asked{Conn: conn, begun: make(chan struct{})}, nil
}

// dialError is of a connection that was not made, and has no word of the host.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// asked is a connection that is read once something was written to it. Of what
// comes before, net/http would log the beginning, which is the host's content.
type asked struct {
	net.Conn
	once  sync.Once
	begun chan struct{} // closed by the first Write, and by Close
}

func (a *asked) begin() { a.once.Do(func() { close(a.begun) }) }

func (a *asked) Write(p []byte) (int, error) {
	a.begin()
	return a.Conn.Write(p)
}

func (a *asked) Read(p []byte) (int, error) {
	<-a.begun
	return a.Conn.Read(p)
}

func (a *asked) Close() error {
	a.begin()
	return a.Conn.Close()
}
