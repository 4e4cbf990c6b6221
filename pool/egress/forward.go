package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// place is HOST:PORT of what a request asks for, and whether it asks for
// anything that a proxy gives.
func place(r *http.Request) (target string, ok bool) {
	host, port := r.URL.Hostname(), r.URL.Port()
	switch {
	case r.Method == http.MethodConnect:
		if port == "" {
			return clip(r.URL.Host), false
		}
	case r.URL.Scheme != "http" || host == "" || r.URL.User != nil:
		return clip(r.URL.Host), false
	case port == "":
		port = "80"
	}
	host, err := wire.ParseHost(host)
	if err != nil {
		return clip(r.URL.Host), false
	}
	return net.JoinHostPort(host, port), true
}

// clip bounds what of a foreign word is logged.
func clip(s string) string {
	if len(s) > 300 {
		s = s[:300]
	}
	return strings.ToValidUTF8(s, "?")
}

// failure is the status and the outcome of an error of dial.
func failure(err error) (status int, outcome string) {
	switch {
	case errors.Is(err, errDenied):
		return http.StatusForbidden, denied
	case errors.Is(err, errBytes):
		return http.StatusTooManyRequests, limited
	}
	return http.StatusBadGateway, failed
}

// unanswered stands in the log for an error that may quote what the host sent.
const unanswered = "the host gave no answer that can be passed on"

// withoutContent is what of an error of a request may be logged.
func withoutContent(err error) string {
	if made, ok := errors.AsType[*dialError](err); ok {
		return made.Error()
	}
	for _, known := range []error{errBytes, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return unanswered
}

// tunnel connects the two ends and copies bytes until one of them ends.
func (s *Session) tunnel(ctx context.Context, w http.ResponseWriter, target string) {
	there, err := s.dial(ctx, "tcp", target)
	if err != nil {
		status, outcome := failure(err)
		s.answer(w, target, status, outcome, err.Error())
		return
	}
	defer there.Close()
	s.ends(target, allowed, "")
	here, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the program has gone
	}
	defer here.Close()
	stop := context.AfterFunc(ctx, func() { here.Close(); there.Close() })
	defer stop()
	if _, err := io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var ways sync.WaitGroup
	ways.Go(func() { oneWay(there, early.Reader) })
	oneWay(here, there)
	_ = here.Close() // the other way waits for what the program sends
	ways.Wait()
}

// oneWay copies until the end, and passes the end on: a program may close its
// way and wait for the rest of the other.
func oneWay(to net.Conn, from io.Reader) {
	_, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close()
	}
}

// CloseWrite ends our way of the connection only.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(*net.TCPConn); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// forward sends a request on and its answer back. Host is what the address
// says, whatever the program's header said.
func (s *Session) forward(ctx context.Context, w http.ResponseWriter, r *http.Request, target string) {
	proxy := httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) {
			out.Out.Host, out.Out.URL.Host = out.Out.URL.Host, target
		},
		Transport: s.transport, ErrorLog: s.server.ErrorLog, FlushInterval: -1,
		ModifyResponse: func(*http.Response) error {
			s.ends(target, allowed, "")
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			status, outcome := failure(err)
			s.ends(target, outcome, withoutContent(err))
			reply(w, status, err.Error())
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}
