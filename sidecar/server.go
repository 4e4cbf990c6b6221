// Package sidecar is the API an agent finds on localhost: it checks a request,
// hands it to a Runner, and answers what came of it.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api/silent"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Runner executes one request in a sandbox of its own. On a cluster it is the
// pool's client, on one machine the pool itself. An error is an *api.Error; how
// the program ended is the result's outcome. It returns soon after ctx ends.
type Runner interface {
	Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error)
}

// Options is all that a Server needs.
type Options struct {
	Listen      string   // address of the API, "127.0.0.1:8900"
	AdminListen string   // address of metrics, health and readiness, ":8902"
	Hosts       []string // further names the API may be asked for by, beside localhost
	HostsHint   string   // ends the answer to another name: how to have it answered to, if it can be
	Runner      Runner
	Limits      Limits
	// InForce makes of Limits those in force at this moment, for limits that are
	// learnt later than at start. Server stays as it was. Nil changes nothing.
	InForce  func(Limits) Limits
	Logger   hclog.Logger
	Registry *prometheus.Registry
	// Ready says why runs cannot be served now, or nil. It may be nil itself.
	Ready   func() error
	Version string
	// Mounts are further paths of the API port.
	Mounts []Mounted
	// Drain is how long runs may go on once Run's context has ended.
	Drain time.Duration
	// Hurry ends that when it is closed. Nil never does.
	Hurry <-chan struct{}
	// StreamKeepAlive is how long a stream may be silent before a comment is
	// sent; 15 s when zero.
	StreamKeepAlive time.Duration
}

func (o *Options) validate() error {
	if o.Runner == nil || o.Logger == nil || o.Registry == nil {
		return errors.New("cannot make a sidecar without a Runner, a Logger and a Registry")
	}
	if o.Drain < 0 || o.StreamKeepAlive < 0 {
		return errors.New("cannot make a sidecar with a negative Drain or StreamKeepAlive")
	}
	if o.StreamKeepAlive == 0 {
		o.StreamKeepAlive = 15 * time.Second
	}
	return o.Limits.validate()
}

// Server is the API and its admin port.
type Server struct {
	Options
	metrics *metrics
	gate    *gate
	gone    *watcher
	keys    *keys
	mcp     http.Handler
	routes  map[string]route

	api, admin           *fasthttp.Server
	listener, adminPorts net.Listener
	unasked              silent.Conns

	// base is the context of every run; stop ends them all.
	base context.Context
	stop context.CancelCauseFunc
	runs sync.WaitGroup
}

// New binds both ports, so that a bad one is an error at start, and serves
// nothing yet.
func New(o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	s := &Server{Options: o, metrics: m, gate: newGate(o.Limits.Server)}
	if err := m.watch(o.Registry, s.gate.inFlight); err != nil {
		return nil, err
	}
	s.keys = newKeys(o.Limits.Server)
	s.base, s.stop = context.WithCancelCause(context.Background())
	s.gone = newWatcher(m.hangups.Inc)
	s.mcp = s.newMCP()
	s.routes = s.table()
	if err := s.mount(); err != nil {
		return nil, err
	}
	if err := s.bind(); err != nil {
		return nil, err
	}
	s.api = s.newHTTP(s.handle, o.Limits.Server)
	s.api.ExpectHandler = s.expected
	s.admin = s.newHTTP(s.handleAdmin(), o.Limits.Server)
	return s, nil
}

// bind takes both ports. Whoever has one of ours often has the other, so both are
// told of at once.
func (s *Server) bind() error {
	var errs [2]error
	s.listener, errs[0] = bind("listen", s.Listen)
	s.adminPorts, errs[1] = bind("admin-listen", s.AdminListen)
	err := errors.Join(errs[:]...)
	if err == nil {
		s.listener = stamping(s.listener)
		return nil
	}
	for _, l := range []net.Listener{s.listener, s.adminPorts} {
		if l != nil {
			_ = l.Close()
		}
	}
	return err
}

func bind(name, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on --%s %s: %w%s", name, address, err, another(name, address, err))
	}
	return l, nil
}

// another proposes a free port in place of one that is taken.
func another(name, address string, err error) string {
	host, _, splitErr := net.SplitHostPort(address)
	if !errors.Is(err, syscall.EADDRINUSE) || splitErr != nil {
		return ""
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return ""
	}
	_ = l.Close() // it was only asked for its port
	return fmt.Sprintf("; perhaps another Code Sandbox runs here: end it, or take a port that is free, such as --%s %s", name, l.Addr())
}

// limits are those in force at this moment.
func (s *Server) limits() Limits {
	if s.InForce == nil {
		return s.Limits
	}
	l := s.InForce(s.Limits)
	l.Server = s.Limits.Server
	return l
}

// Addr is where the API listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// AdminAddr is where metrics, health and readiness are served.
func (s *Server) AdminAddr() net.Addr { return s.adminPorts.Addr() }

// newHTTP sets what fasthttp leaves without a bound.
func (s *Server) newHTTP(handler fasthttp.RequestHandler, l ServerLimits) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:      handler,
		ConnState:    func(c net.Conn, state fasthttp.ConnState) { s.unasked.Note(c, state == fasthttp.StateNew) },
		ErrorHandler: s.malformed,
		Logger:       quietLogger{s.Logger.Named("http")},
		// Bodies are read by the handlers, in pieces and up to the limit: so a
		// body that is too large gets an answer and not a closed connection.
		StreamRequestBody:            true,
		MaxRequestBodySize:           prefetch,
		DisablePreParseMultipartForm: true,
		ReadBufferSize:               maxHeaders,
		ReadTimeout:                  l.Read.Duration(),
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  l.Idle.Duration(),
		Concurrency:                  l.Connections + 2*spareConnections, // the wall is before that
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true, // errors are told: without the request in them
	}
}

const (
	prefetch         = 64 << 10 // of a body, read before the handler is called
	maxHeaders       = 16 << 10
	writeTimeout     = 30 * time.Second // for an answer, or for one piece of a stream
	spareConnections = 256              // over the limit, which are refused by the handler
)

// errDrained ends the runs that outlived the drain.
var errDrained = errors.New("the sidecar shut down before the run had ended")

// Run serves until ctx ends, then drains: not ready, no new runs, the runs in
// flight finish until the Drain deadline or Hurry, and all is closed.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 2)
	var serving sync.WaitGroup
	serve := func(name string, server *fasthttp.Server, l net.Listener) {
		if err := server.Serve(l); err != nil {
			failed <- fmt.Errorf("cannot serve the %s port: %w", name, err)
		}
	}
	watchCtx, stopWatch := context.WithCancel(context.Background())
	serving.Go(func() { s.gone.run(watchCtx) })
	serving.Go(func() { serve("API", s.api, s.behindWall(s.listener, s.api)) })
	serving.Go(func() { serve("admin", s.admin, s.behindWall(s.adminPorts, s.admin)) })
	s.Logger.Info("serving", "address", s.Addr().String(), "admin_address", s.AdminAddr().String())

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.drain()
	err = errors.Join(err, s.close())
	stopWatch()
	serving.Wait()
	return err
}

// drain lets no run in and waits for those that are.
func (s *Server) drain() {
	idle := s.gate.close()
	s.Logger.Info("draining", "in_flight", s.gate.inFlight(), "deadline", s.Drain.String())
	if n := s.gate.inFlight(); n > 0 && s.Hurry != nil {
		s.Logger.Warn("waiting for runs; a second signal ends them", "in_flight", n, "deadline", s.Drain.String())
	}
	deadline := time.NewTimer(s.Drain)
	defer deadline.Stop()
	select {
	case <-idle:
	case <-deadline.C:
		s.Logger.Warn("ending runs at the drain deadline", "in_flight", s.gate.inFlight())
	case <-s.Hurry:
		s.Logger.Warn("ending runs before the drain deadline, as told", "in_flight", s.gate.inFlight())
	}
	s.stop(errDrained)
	landed := make(chan struct{})
	go func() { // ends with the last Runner's return
		<-idle
		s.runs.Wait()
		close(landed)
	}()
	select {
	case <-landed:
	case <-time.After(patience + time.Second):
		s.Logger.Error("a runner does not return though its context has ended")
	}
}

// close shuts both servers; connections still busy after a while are left to
// the process's end.
func (s *Server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	defer s.unasked.CloseSoon()()
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() { errs[0] = s.api.ShutdownWithContext(ctx) })
	both.Go(func() { errs[1] = s.admin.ShutdownWithContext(ctx) })
	both.Wait()
	// A server that had not begun to serve yet knows of nothing to shut.
	_ = s.listener.Close()
	_ = s.adminPorts.Close()
	s.Logger.Info("closed")
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("cannot close all connections: %w", err)
	}
	return nil
}

// quietLogger gives fasthttp's own lines, which are about single connections,
// to the debug log.
type quietLogger struct{ hclog.Logger }

func (l quietLogger) Printf(format string, args ...any) {
	l.Debug("connection failed", "message", fmt.Sprintf(format, args...))
}
