package sidecar

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// Mounted is a path of the API port that another part of this process serves,
// behind the same door: browsers are refused, requests bounded and counted, a
// panic becomes an answer.
type Mounted struct {
	Path, Method string // Method is GET or POST
	BodyBytes    int    // the most that the body of a POST may have
	// Serve answers in rc, or returns an error, or a function that writes an
	// answer which goes on after Serve's return. ctx ends when the caller hangs
	// up, when the sidecar stops, and when the answer is complete.
	Serve func(ctx context.Context, rc *fasthttp.RequestCtx, body []byte) (func(*bufio.Writer), *api.Error)
}

func (m Mounted) validate(routes map[string]route) error {
	if _, taken := routes[m.Path]; taken || m.Path == "" || m.Serve == nil || m.Method != http.MethodGet && m.Method != http.MethodPost {
		return fmt.Errorf("cannot mount %s %q in the sidecar", m.Method, m.Path)
	}
	return nil
}

// mount adds the mounted paths to the table.
func (s *Server) mount() error {
	for _, m := range s.Mounts {
		if err := m.validate(s.routes); err != nil {
			return err
		}
		s.routes[m.Path] = route{method: m.Method, bodyBytes: m.BodyBytes, handler: func(ctx *fasthttp.RequestCtx, x *exchange) *api.Error { return s.serveMounted(ctx, x, m) }}
	}
	return nil
}

func (s *Server) serveMounted(rc *fasthttp.RequestCtx, x *exchange, m Mounted) *api.Error {
	size, err := mountedSize(rc, m)
	if err != nil {
		return err
	}
	if err := s.gate.enter(1, size); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(api.WithTrace(s.base, x.Trace))
	var once sync.Once
	unwatch := func() {}
	end := func() {
		once.Do(func() {
			unwatch()
			cancel(nil)
			s.gate.leave(1, size)
		})
	}
	defer func() {
		if !x.streaming {
			end()
		}
	}()
	var body []byte
	if m.Method == http.MethodPost {
		if body, err = readBody(rc, m.BodyBytes); err != nil {
			return err
		}
	}
	unwatch = s.gone.watch(rc.Conn(), func() { cancel(errGone) })
	goOn, err := m.Serve(ctx, rc, body)
	switch {
	case err != nil && ctx.Err() != nil:
		return ended(ctx, err)
	case err != nil:
		return err
	case goOn != nil:
		s.goOn(rc, x, goOn, end)
	}
	return nil
}

// goOn sends an answer that is still being made. It is counted at its end.
func (s *Server) goOn(rc *fasthttp.RequestCtx, x *exchange, write func(*bufio.Writer), end func()) {
	x.streaming = true
	id, start := x.RequestID, x.start
	rc.Response.ImmediateHeaderFlush = true
	rc.SetBodyStreamWriter(func(w *bufio.Writer) {
		code := "ok"
		defer end()
		defer func() {
			if p := recover(); p != nil {
				code = string(s.panicked(p, id).Code)
			}
			s.metrics.answered(code, time.Since(start), 0)
		}()
		write(w)
	})
}

func mountedSize(rc *fasthttp.RequestCtx, m Mounted) (int64, *api.Error) {
	if m.Method != http.MethodPost {
		return 0, nil
	}
	isJSON, err := contentType(rc)
	if err != nil {
		return 0, err
	}
	if !isJSON {
		return 0, api.Errorf(api.BadRequest, "the Content-Type must be application/json for %s", m.Path)
	}
	n := rc.Request.Header.ContentLength()
	if n > m.BodyBytes {
		return 0, bodyTooLarge(m.BodyBytes, n)
	}
	if n < 0 {
		n = m.BodyBytes
	}
	return int64(n), nil
}
