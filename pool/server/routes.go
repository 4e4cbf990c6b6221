package server

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
)

// A handler answers a request of a caller that is known, or returns the error
// that is sent.
type handler func(w http.ResponseWriter, r *http.Request, c pool.Caller) *api.Error

type route struct {
	method string
	handler
}

func (s *Server) routes() map[string]route {
	return map[string]route{
		api.RunsPath:   {http.MethodPost, s.serveRun},
		api.CopiesPath: {http.MethodPost, s.serveCopies},
		api.LimitsPath: {http.MethodGet, s.serveLimits},
	}
}

// door is what every request passes: a panic behind it becomes an answer, and
// every answer is counted.
func (s *Server) door(routes map[string]route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, answer := time.Now(), &watched{ResponseWriter: w}
		code := s.guarded(answer, r, routes)
		s.metrics.answered(code, time.Since(start))
	})
}

// watched knows whether an answer has begun.
type watched struct {
	http.ResponseWriter
	begun bool
	// failure is the error that was told in a stream.
	failure api.Code
}

func (w *watched) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// guarded answers, and returns what the answer is counted as.
func (s *Server) guarded(w *watched, r *http.Request, routes map[string]route) (code string) {
	defer func() {
		if p := recover(); p != nil {
			id := visible(r.Header.Get("X-Request-Id"))
			s.metrics.panics.Inc()
			s.Logger.Error("panic in a handler", "request_id", id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			e := api.Errorf(api.Internal, "the pool failed on this request; its log says more under the request id %q", id).MaybeRan()
			code = string(e.Code)
			if !w.begun {
				fail(w, e)
			}
			w.Header().Set("Connection", "close")
		}
	}()
	if err := s.dispatch(w, r, routes); err != nil {
		fail(w, err)
		return string(sound(err).Code)
	}
	if w.failure != "" {
		return string(w.failure)
	}
	return "ok"
}

func (s *Server) dispatch(w *watched, r *http.Request, routes map[string]route) *api.Error {
	to, ok := routes[r.URL.Path]
	switch {
	case !ok:
		return api.Errorf(api.NotFound, "there is no %q here", r.URL.Path)
	case r.Method != to.method:
		w.Header().Set("Allow", to.method)
		return api.Errorf(api.MethodNotAllowed, "%s is asked for with %s", r.URL.Path, to.method)
	case s.gate.closed():
		return errShut()
	}
	c, err := s.authenticate(r)
	if err != nil {
		return err
	}
	return to.handler(w, r, c)
}

const (
	// resolveTimeout is shorter than a client waits to be let in.
	resolveTimeout = 3 * time.Second
	maxToken       = 16 << 10
)

// authenticate finds the caller that the bearer token stands for.
func (s *Server) authenticate(r *http.Request) (c pool.Caller, err *api.Error) {
	defer func() { s.metrics.authenticated(err) }()
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return c, api.Errorf(api.Unauthenticated, "the request has no bearer token")
	}
	ctx, cancel := context.WithTimeout(r.Context(), resolveTimeout)
	defer cancel()
	c, failure := s.Callers.Resolve(ctx, token, addressOf(r))
	switch {
	case failure == nil:
		return c, nil
	case ctx.Err() != nil:
		return c, api.Errorf(api.NoCapacity, "cannot verify the token in time: %w", failure).After(time.Second)
	}
	return c, api.From(failure)
}

// addressOf is where a request comes from, as its connection knows it; zero when
// that is no address.
func addressOf(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap()
}

func (s *Server) serveLimits(w http.ResponseWriter, _ *http.Request, _ pool.Caller) *api.Error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.Told) // fails only when the client is gone
	return nil
}

// fail answers with an error.
func fail(w http.ResponseWriter, e *api.Error) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	switch e.Code {
	case api.Busy, api.NoCapacity:
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(e.RetryAfter.Seconds())))))
	case api.Unauthenticated:
		h.Set("WWW-Authenticate", "Bearer")
	}
	if e.Reason == api.Draining {
		h.Set("Connection", "close")
	}
	w.WriteHeader(sound(e).Status())
	_ = encoder(w).Encode(api.Failure{Error: sound(e)}) // fails only when the client is gone
}

// sound is e with what an answer needs, whatever a driver left out.
func sound(e *api.Error) *api.Error {
	c := *e
	if c.Status() == 0 {
		c.Code = api.Internal
	}
	if c.Executed != api.No {
		c.Executed = api.Maybe
	}
	return &c
}

// visible is a header value of visible ASCII, or "" for another.
func visible(value string) string {
	if len(value) > 128 || strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return ""
	}
	return value
}

// adminRoutes serves probes and scrapes, which must never meet traffic.
func (s *Server) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.ready(); err != nil {
			fail(w, api.Errorf(api.NoCapacity, "not ready: %w", err))
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}

func (s *Server) ready() error {
	if s.gate.closed() {
		return errShut()
	}
	if s.Ready != nil {
		return s.Ready()
	}
	return nil
}
