package sidecar

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// wall is a listener that lets so many connections through and refuses the rest
// itself: fasthttp would do so in plain text. The handler refuses from the
// limit on, but only who has sent a request; behind it, this bounds the others.
type wall struct {
	net.Listener
	most    int
	open    func() int
	refused func(bytes int)
}

func (s *Server) behindWall(l net.Listener, server *fasthttp.Server) net.Listener {
	return &wall{
		Listener: l, most: s.Limits.Server.Connections + spareConnections,
		open:    func() int { return int(server.GetOpenConnectionsCount()) },
		refused: func(n int) { s.metrics.answered(string(api.Busy), 0, n) },
	}
}

// Accept implements net.Listener.
func (w *wall) Accept() (net.Conn, error) {
	for {
		c, err := w.Listener.Accept()
		if err != nil || w.open() < w.most {
			return c, err
		}
		w.refuse(c)
	}
}

// refuse answers without waiting: a new connection's buffer takes the answer.
func (w *wall) refuse(c net.Conn) {
	defer c.Close()
	var body bytes.Buffer
	e := api.Errorf(api.Busy, "%d connections are open, far over the limit: close some, or reuse them", w.most)
	_ = writeJSON(&body, errorBody{e}) // strings always encode
	var answer bytes.Buffer
	fmt.Fprintf(&answer, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: 1\r\n"+
		"Cache-Control: no-store\r\nConnection: close\r\n\r\n%s", e.Status(), http.StatusText(e.Status()), body.Len(), &body)
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	_, _ = c.Write(answer.Bytes()) // to whom it does not reach, nothing can be said
	w.refused(body.Len())
}
