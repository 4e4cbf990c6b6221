// Package server is the runner of a pod: it serves one run over TLS, and ends.
//
// It stands beside hostile code of the same user. It holds nothing worth taking:
// a hash of the pool's secret, a key that was made a moment ago, and the run.
package server

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	headBound   = 10 * time.Second // for the head of a request to arrive
	bodyBound   = 20 * time.Second // and its body
	readyBound  = time.Minute      // for the interpreter to be ready
	leaveBound  = 2 * time.Second  // for the answer to leave
	maxHead     = 16 << 10
	connections = 16 + 32 // at once: the pool's own, and those that carry the program's to its proxy
	// maxComplaints is how often the server tells of bad connections: a program
	// can make as many as it likes, and they would fill the node's disk.
	maxComplaints = 20
)

// How Run ended other than by a run.
var (
	// ErrUnused is the end of a runner that nobody gave a run.
	ErrUnused = errors.New("no run came within the runner's life")
	// ErrOverdue is the end of a runner whose run did not end when it had to.
	ErrOverdue = errors.New("the run did not end within its bound")
)

// Server is one runner.
type Server struct {
	config wire.RunnerConfig
	secret []byte // its hash
	// start makes the interpreter; it is a field for tests without one.
	start func(context.Context, wire.RunnerConfig) (*Interpreter, error)

	ready       chan struct{} // closed when interpreter or failure is set
	interpreter *Interpreter
	failure     error
	prepared    atomic.Bool   // the one copy has been asked for
	nonce       string        // of a copy's frames
	proxied     chan net.Conn // the program's connections to its proxy; nil where it has none

	closed   atomic.Bool // it was shown that no other machine answers
	used     atomic.Bool
	finished chan struct{} // closed when the run's last line has been written
	overdue  chan struct{} // closed when it should have been

	pool atomic.Value  // the net.Conn that was last told that this runner is fresh
	left chan struct{} // has a word when that has ended
}

// New makes a runner of a configuration that ParseConfig has checked.
func New(c wire.RunnerConfig) (*Server, error) {
	mounts, err := writableMounts()
	if err != nil {
		return nil, err
	}
	if err := checkFolders(c, mounts); err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(c.SecretSHA256)
	if err != nil {
		return nil, fmt.Errorf("cannot read the hash of the secret: %w", err)
	}
	return &Server{
		config: c, secret: secret, start: StartInterpreter,
		ready: make(chan struct{}), finished: make(chan struct{}), overdue: make(chan struct{}), left: make(chan struct{}, 1),
	}, nil
}

// Run serves until the one run has been answered, and returns nil then. When ctx
// ends first it returns at once, but not while a run is under way: the program
// itself may have sent the signal.
func (s *Server) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.config.Address)
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	certificate, err := newCertificate()
	if err != nil {
		return fmt.Errorf("cannot make a certificate: %w", err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
	}
	var http1 http.Protocols
	http1.SetHTTP1(true)
	server := &http.Server{
		Handler: s.handler(), Protocols: &http1, ReadHeaderTimeout: headBound, MaxHeaderBytes: maxHead,
		ErrorLog: log.New(&few{to: os.Stderr, left: maxComplaints}, "", 0), IdleTimeout: 2 * s.config.Life,
		ConnContext: withConnection, ConnState: s.watchPool,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(tls.NewListener(limit(listener, connections), config)) }()
	if !s.config.Copy {
		go s.prepare()
	}
	err = s.wait(ctx, failed)
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveBound)
	defer cancel()
	if err := server.Shutdown(leave); err != nil {
		server.Close() //nolint:errcheck // this process ends
	}
	return err
}

// prepare starts the interpreter.
func (s *Server) prepare() {
	ctx, cancel := context.WithTimeout(context.Background(), readyBound)
	defer cancel()
	s.interpreter, s.failure = s.start(ctx, s.config)
	close(s.ready)
}

// wait returns when this runner has nothing more to do.
func (s *Server) wait(ctx context.Context, failed <-chan error) error {
	life := time.NewTimer(s.config.Life)
	defer life.Stop()
	ready, lost, done, end := s.ready, (<-chan struct{})(nil), ctx.Done(), life.C
	for {
		select {
		case err := <-failed:
			return fmt.Errorf("cannot serve: %w", err)
		case <-s.finished:
			return nil
		case <-s.overdue:
			return ErrOverdue
		case <-ready:
			ready = nil
			if s.failure != nil {
				return s.failure
			}
			s.told()
			lost = s.interpreter.Lost
		case <-lost:
			if lost = nil; s.claim() {
				return errors.New("the interpreter ended before its run")
			}
		case <-done:
			if done = nil; s.claim() {
				return nil
			}
		case <-end:
			if end = nil; s.claim() {
				return ErrUnused
			}
		case <-s.left:
			if s.claim() {
				return nil
			}
		}
	}
}

// told says once what could not be imported ahead.
func (s *Server) told() {
	for module, why := range s.interpreter.Refused {
		fmt.Fprintf(os.Stderr, "cannot import %q ahead: %s\n", module, why)
	}
}

// claim takes the one run; false when it has been taken.
func (s *Server) claim() bool { return s.used.CompareAndSwap(false, true) }

// handler is the whole of what can be asked.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+protocol.FreshPath, s.fresh)
	mux.HandleFunc("POST "+protocol.RunPath, s.run)
	if s.config.Copy {
		mux.HandleFunc("POST "+protocol.PreparePath, s.copying)
		mux.HandleFunc("POST "+protocol.EgressPath, s.carry)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, api.Errorf(api.NotFound, "the runner has no such path"))
	})
	return s.authenticated(mux)
}
