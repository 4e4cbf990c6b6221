package egress

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Session serves one sandbox.
type Session struct {
	proxy     *Proxy
	egress    *wire.Egress
	log       hclog.Logger
	server    *http.Server
	transport *http.Transport
	ctx       context.Context // ends with the session
	end       context.CancelFunc
	work      sync.WaitGroup

	left, sent, received atomic.Int64 // bytes
	requests             atomic.Int64

	mu     sync.Mutex
	ended  bool
	denied []string
}

// Serve begins to answer on a listener of a sandbox, which Close closes.
func (p *Proxy) Serve(listener net.Listener, sandbox string, e *wire.Egress) *Session {
	ctx, end := context.WithCancel(context.Background())
	s := &Session{
		proxy: p, egress: e, log: p.opts.Logger.With("sandbox", sandbox, "tool", e.Tool),
		ctx: ctx, end: end,
	}
	s.left.Store(p.opts.Bytes)
	// One transport a sandbox: no connection outlives it or serves another.
	s.transport = &http.Transport{
		DialContext: s.dial, MaxConnsPerHost: maxOpen, MaxResponseHeaderBytes: headerBytes, IdleConnTimeout: idleTimeout,
		ResponseHeaderTimeout: idleTimeout, DisableCompression: true,
	}
	s.server = &http.Server{
		Handler: s, ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		ErrorLog: log.New(io.Discard, "", 0), // what a program sends is no news
	}
	s.work.Go(func() {
		if err := s.server.Serve(&few{Listener: listener, turns: make(chan struct{}, maxOpen)}); !errors.Is(err, http.ErrServerClosed) {
			s.log.Warn("egress ended early", "error", err)
		}
	})
	return s
}

// Close ends every connection, waits for that, and returns the hosts that were
// denied, each once.
func (s *Session) Close() []string {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.end()
	_ = s.server.Close() // the listener's error is nobody's to act on
	s.work.Wait()
	s.transport.CloseIdleConnections()
	s.proxy.metrics.bytes.WithLabelValues(s.egress.Tool, "sent").Add(float64(s.sent.Load()))
	s.proxy.metrics.bytes.WithLabelValues(s.egress.Tool, "received").Add(float64(s.received.Load()))
	return s.denied
}

// ServeHTTP answers one request of the sandbox.
func (s *Session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		return
	}
	defer s.work.Done()
	target, ok := place(r)
	if !ok {
		s.answer(w, target, http.StatusBadRequest, refused, "this is a proxy: it takes CONNECT, and http:// requests with a whole address")
		return
	}
	if s.requests.Add(1) > maxRequests {
		s.answer(w, target, http.StatusTooManyRequests, limited, "this call has made as many requests as one may")
		return
	}
	if r.Method == http.MethodConnect {
		s.tunnel(s.ctx, w, target) // the request's own ends with the program's way, when the other may go on
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.forward(ctx, w, r, target)
}

// begin counts a request in, unless the session has ended.
func (s *Session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.work.Add(1)
	}
	return !s.ended
}

// answer is an answer of our own, counted and logged.
func (s *Session) answer(w http.ResponseWriter, target string, status int, outcome, why string) {
	s.ends(target, outcome, why)
	w.Header().Set("Connection", "close")
	http.Error(w, "code-sandbox: "+why, status)
}

// ends counts and logs a request, and remembers a host that was denied.
func (s *Session) ends(target, outcome, why string) {
	s.proxy.metrics.requests.WithLabelValues(s.egress.Tool, outcome).Inc()
	if outcome == allowed {
		s.log.Info("egress allowed", "host", target)
		return
	}
	s.log.Info("egress not allowed", "host", target, "outcome", outcome, "reason", why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if outcome == denied && len(s.denied) < maxDenied && !slices.Contains(s.denied, target) {
		s.denied = append(s.denied, target)
	}
}

// few accepts so many connections at once; others wait in the kernel's queue.
type few struct {
	net.Listener
	turns chan struct{}
}

func (f *few) Accept() (net.Conn, error) {
	f.turns <- struct{}{}
	conn, err := f.Listener.Accept()
	if err != nil {
		<-f.turns
		return nil, err
	}
	return &turn{Conn: conn, release: sync.OnceFunc(func() { <-f.turns })}, nil
}

// turn gives its place back when it is closed.
type turn struct {
	net.Conn
	release func()
}

func (t *turn) Close() error {
	defer t.release()
	return t.Conn.Close()
}
