package egress

import (
	"context"
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
	label     string // the tool in metrics
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

// Serve begins to answer what comes from a listener of a sandbox, which Close
// closes. Who is behind it the listener has made sure of.
func (p *Proxy) Serve(listener net.Listener, sandbox string, e *wire.Egress) *Session {
	ctx, end := context.WithCancel(context.Background())
	s := &Session{
		proxy: p, egress: e, label: p.metrics.tool(e.Tool), log: p.opts.Logger.With("sandbox", sandbox, "tool", e.Tool),
		ctx: ctx, end: end,
	}
	s.left.Store(p.opts.Bytes)
	// One transport a sandbox, one connection a request: none outlives it or serves
	// another. What a host says unasked on an idle one would be logged.
	s.transport = &http.Transport{
		DialContext: s.dialAsked, DisableKeepAlives: true, MaxConnsPerHost: maxOpen, MaxResponseHeaderBytes: headerBytes,
		ResponseHeaderTimeout: idleTimeout, DisableCompression: true,
	}
	s.server = &http.Server{
		Handler: s, ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		ErrorLog: log.New(io.Discard, "", 0), // what a program sends is no news
	}
	s.work.Go(func() {
		err := s.server.Serve(&few{Listener: listener, turns: make(chan struct{}, maxOpen), left: maxConnections, done: ctx.Done()})
		if ctx.Err() == nil {
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
	s.proxy.metrics.bytes.WithLabelValues(s.label, "sent").Add(float64(s.sent.Load()))
	s.proxy.metrics.bytes.WithLabelValues(s.label, "received").Add(float64(s.received.Load()))
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
	reply(w, status, why)
}

// reply tells the program why there is no answer of a host.
func reply(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Connection", "close")
	http.Error(w, "code-sandbox: "+why, status)
}

// ends counts and logs a request, and remembers a host that was denied.
func (s *Session) ends(target, outcome, why string) {
	s.proxy.metrics.requests.WithLabelValues(s.label, outcome).Inc()
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

// few accepts so many connections at once, and so many at all: on a cluster each
// costs the pool a handshake, whatever comes of it. Others wait in the kernel's
// queue. One goroutine accepts.
type few struct {
	net.Listener
	turns chan struct{}
	left  int
	done  <-chan struct{} // closed at the end of the session
}

func (f *few) Accept() (net.Conn, error) {
	if f.left == 0 {
		<-f.done
		return nil, net.ErrClosed
	}
	f.turns <- struct{}{}
	conn, err := f.Listener.Accept()
	if err != nil {
		<-f.turns
		return nil, err
	}
	f.left--
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
