// Package server is the pool's service: it knows its callers by their tokens,
// bounds them, and answers each run from a sandbox of the pool.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/net/netutil"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/api/silent"
)

// TemplateFunc chooses the sandbox for what a caller asks. The error is an
// *api.Error of which nothing ran.
type TemplateFunc func(ctx context.Context, c pool.Caller, body *api.RunBody) (pool.Template, error)

// Options is all that a Server needs.
type Options struct {
	Listen      string // address of the service
	AdminListen string // address of metrics, health and readiness, without TLS
	// TLS names the certificate. Version and protocols are set here.
	TLS      *tls.Config
	Pool     *pool.Pool
	Callers  pool.Callers
	Template TemplateFunc
	// Told is what GET /v1/limits answers; its BodyBytes is set here.
	Told   api.ServiceLimits
	Limits Limits
	// Ready says why runs cannot be served now, or nil. It may be nil itself.
	Ready func() error
	// Drain is how long runs may go on once Run's context has ended.
	Drain    time.Duration
	Audit    *Audit       // nil keeps no record
	Tracer   trace.Tracer // nil traces nothing
	Logger   hclog.Logger
	Registry *prometheus.Registry
}

func (o *Options) validate() error {
	switch {
	case o.TLS == nil || o.Pool == nil || o.Callers == nil || o.Template == nil:
		return errors.New("cannot make the pool's service without TLS, a Pool, Callers and a Template")
	case o.Logger == nil || o.Registry == nil:
		return errors.New("cannot make the pool's service without a Logger and a Registry")
	case o.Drain < 0:
		return errors.New("cannot make the pool's service with a negative Drain")
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	return o.Limits.validate()
}

// Server is the service and its admin port.
type Server struct {
	Options
	metrics *metrics
	gate    *gate
	rates   *rates

	service, admin       *http.Server
	unasked              silent.Conns
	listener, adminPorts net.Listener

	// base is the context of every request; stop ends them all.
	base context.Context
	stop context.CancelCauseFunc
}

const (
	headerTimeout = 10 * time.Second
	// idleTimeout is longer than a client's: the client closes first, and so
	// never sends into a connection that is being closed.
	idleTimeout = 3 * time.Minute
	maxHeaders  = 64 << 10
)

// New binds both ports, so that a bad one is an error at start, and serves
// nothing yet.
func New(o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Told.BodyBytes = o.Limits.BodyBytes
	s := &Server{Options: o, gate: newGate(o.Limits)}
	var err error
	if s.rates, err = newRates(o.Limits); err != nil {
		return nil, err
	}
	if s.metrics, err = newMetrics(o.Registry, s.gate.inFlight); err != nil {
		return nil, err
	}
	s.base, s.stop = context.WithCancelCause(context.Background())
	if s.listener, err = bind("listen", o.Listen); err != nil {
		return nil, err
	}
	if s.adminPorts, err = bind("admin-listen", o.AdminListen); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	s.service, s.admin = s.newHTTP(s.door(s.routes())), s.newHTTP(s.adminRoutes())
	return s, nil
}

func bind(name, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on -%s=%q: %w", name, address, err)
	}
	return l, nil
}

// newHTTP sets what net/http leaves without a bound. There is no ReadTimeout:
// it would end the context of a run that takes longer. Handlers bound what they
// read and write themselves.
func (s *Server) newHTTP(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaders,
		ConnState:         func(c net.Conn, state http.ConnState) { s.unasked.Note(c, state == http.StateNew) },
		// Its lines are about single connections: failed handshakes, mostly.
		ErrorLog: log.New(quiet{s.Logger.Named("http")}, "", 0),
	}
}

type quiet struct{ hclog.Logger }

func (q quiet) Write(p []byte) (int, error) {
	q.Debug("connection failed", "message", string(p))
	return len(p), nil
}

// Addr is where the service listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// AdminAddr is where metrics, health and readiness are served.
func (s *Server) AdminAddr() net.Addr { return s.adminPorts.Addr() }

// serverTLS is HTTP/1.1 over TLS 1.3. With one run a connection, who hangs up
// is seen at once, and a client knows what it has sent of which run.
func (s *Server) serverTLS() *tls.Config {
	c := s.TLS.Clone()
	c.MinVersion = tls.VersionTLS13
	c.NextProtos = []string{"http/1.1"}
	return c
}

// Run serves until ctx ends, then drains: not ready, no new runs, the runs in
// flight finish until the Drain deadline, and all is closed.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 2)
	var serving sync.WaitGroup
	serve := func(name string, server *http.Server, l net.Listener) {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("cannot serve the %s port: %w", name, err)
		}
	}
	limited := netutil.LimitListener(s.listener, s.Limits.Connections)
	serving.Go(func() { serve("service", s.service, tls.NewListener(limited, s.serverTLS())) })
	serving.Go(func() { serve("admin", s.admin, s.adminPorts) })
	s.Logger.Info("serving", "address", s.Addr().String(), "admin_address", s.AdminAddr().String())

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.drain()
	err = errors.Join(err, s.close())
	serving.Wait()
	return err
}

// errDrained ends the runs that outlived the drain.
var errDrained = errors.New("the pool shut down before the run had ended")

// drain lets no run in and waits for those that are.
func (s *Server) drain() {
	idle := s.gate.close()
	// Who has a connection is told to open its next one elsewhere.
	s.service.SetKeepAlivesEnabled(false)
	s.Logger.Info("draining", "in_flight", s.gate.inFlight(), "deadline", s.Drain.String())
	deadline := time.NewTimer(s.Drain)
	defer deadline.Stop()
	select {
	case <-idle:
	case <-deadline.C:
		s.Logger.Warn("ending runs at the drain deadline", "in_flight", s.gate.inFlight())
	}
	s.stop(errDrained)
	select {
	case <-idle:
	case <-time.After(5 * time.Second):
		s.Logger.Error("a run does not end though its context has ended")
	}
}

// close shuts both servers; connections still busy after a while are cut.
func (s *Server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	defer s.unasked.CloseSoon()()
	var errs []error
	for _, server := range []*http.Server{s.service, s.admin} {
		if err := server.Shutdown(ctx); err != nil {
			errs = append(errs, err, server.Close())
		}
	}
	// A server that had not begun to serve yet knows of nothing to shut.
	_ = s.listener.Close()
	_ = s.adminPorts.Close()
	s.Logger.Info("closed")
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot close all connections: %w", err)
	}
	return nil
}
