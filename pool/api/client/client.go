// Package client calls the pool's service. It is multiplied by every agent pod:
// standard library only.
package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Options says where the pool is and how it is known. Address, a token and a CA
// are required.
type Options struct {
	// Address is host:port; the host may stand for several replicas.
	Address string
	// ServerName is what their certificates must be for; the host when empty.
	ServerName string
	// TokenFile holds the bearer token. It is read again when it changes.
	TokenFile string
	// CAFile holds the PEM certificates that the pool's is signed by, and is
	// read again when it changes; or CA is their text.
	CAFile string
	CA     []byte
	// Self chooses the replica that is asked first; an agent pod's uid is
	// good. Empty is random.
	Self string
	// Lookup resolves a host; nil is the system's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Preopen (1) is how many connections are kept open ahead of a run.
	Preopen int
	// AnswerBytes (64 MiB) bounds one answer.
	AnswerBytes int64
	// Patience (30 s) is how long a run whose context has no deadline waits for
	// a pool that takes it.
	Patience time.Duration
}

const (
	connectTimeout = 2 * time.Second // TCP, and again TLS
	// admitTimeout is how long a replica may take to let a run in.
	admitTimeout = 5 * time.Second
	// idleTimeout is shorter than the server's.
	idleTimeout    = 2 * time.Minute
	refreshEvery   = 15 * time.Second
	retryEvery     = 250 * time.Millisecond
	defaultAnswer  = 64 << 20
	defaultWaiting = 30 * time.Second
)

// Client is a sidecar.Runner on the pool's service. Keep must run beside it for
// what is done ahead of runs; runs work without.
type Client struct {
	opts      Options
	replicas  *replicas
	token     *file
	ca        *roots
	transport *http.Transport

	ahead chan *wire.Copy

	reached atomic.Bool
	told    atomic.Pointer[api.ServiceLimits]
	mu      sync.Mutex
	failure error // of the last attempt to reach the pool
}

// New checks the options and reads nothing yet: the files may come later than
// the process.
func New(o Options) (*Client, error) {
	host, port, err := net.SplitHostPort(o.Address)
	switch {
	case err != nil || host == "" || port == "":
		return nil, fmt.Errorf("cannot make a client of the pool: the address %q is not host:port", o.Address)
	case o.TokenFile == "":
		return nil, errors.New("cannot make a client of the pool without a token file")
	case o.CAFile == "" && len(o.CA) == 0:
		return nil, errors.New("cannot make a client of the pool without a CA: its certificate would prove nothing")
	}
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupHost
	}
	if o.ServerName == "" {
		o.ServerName = host
	}
	if o.Self == "" {
		o.Self = rand.Text()
	}
	if o.Preopen <= 0 {
		o.Preopen = 1
	}
	if o.AnswerBytes <= 0 {
		o.AnswerBytes = defaultAnswer
	}
	if o.Patience <= 0 {
		o.Patience = defaultWaiting
	}
	c := &Client{
		opts: o, ahead: make(chan *wire.Copy, maxAhead), token: &file{path: o.TokenFile}, failure: errors.New("it was not asked yet"),
		replicas: &replicas{host: host, port: port, self: o.Self, lookup: o.Lookup, suspects: map[string]time.Time{}},
	}
	if c.ca, err = newRoots(o); err != nil {
		return nil, err
	}
	c.transport = c.newTransport()
	return c, nil
}

// newTransport is HTTP/1.1: one run a connection, so that what was sent of a
// run is known.
func (c *Client) newTransport() *http.Transport {
	dialer := &net.Dialer{
		Timeout: connectTimeout,
		// A node that is gone says nothing: it is noticed within 20 s.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.ca.dial(ctx, dialer, network, address, c.opts.ServerName)
		},
		Protocols:           protocols,
		MaxIdleConnsPerHost: max(8, c.opts.Preopen),
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
		// The body waits until the pool has let the run in, however long.
		ExpectContinueTimeout:  24 * time.Hour,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// Close gives back the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Ready is nil once the pool has answered. It stays nil: an agent is not
// unready because the pool is for a while.
func (c *Client) Ready() error {
	if c.reached.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("the pool at %s has not answered: %w", c.opts.Address, c.failure)
}

// Told is what the pool last said of itself, or nil.
func (c *Client) Told() *api.ServiceLimits { return c.told.Load() }

// Keep asks the pool for its limits now and then until ctx ends. That keeps
// connections open, and the addresses of the replicas known, ahead of a run. It
// passes on what Ahead was told.
func (c *Client) Keep(ctx context.Context) {
	defer c.Close()
	var ahead sync.WaitGroup
	ahead.Go(func() { c.keepAhead(ctx) })
	defer ahead.Wait()
	for {
		pause := refreshEvery
		if err := c.Learn(ctx); err != nil {
			c.mu.Lock()
			c.failure = err
			c.mu.Unlock()
			pause = retryEvery
			if c.reached.Load() {
				pause = time.Second
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Learn asks the pool for its limits: the replica that would be asked first,
// over as many connections as are to be kept open.
func (c *Client) Learn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, admitTimeout)
	defer cancel()
	c.replicas.refresh(ctx)
	addresses, err := c.replicas.order(ctx, time.Now())
	if err != nil {
		return err
	}
	for _, address := range addresses {
		errs := make([]error, c.opts.Preopen)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = c.ask(ctx, address) })
		}
		all.Wait()
		if err = errors.Join(errs...); err == nil {
			c.replicas.good(address)
			c.reached.Store(true)
			return nil
		}
	}
	return err
}
