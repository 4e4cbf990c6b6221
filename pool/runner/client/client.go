// Package client is the pool's side of the runner's protocol: one connection,
// kept from the first word to the result, so that a run waits for no handshake.
package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

const (
	minPause   = 5 * time.Millisecond   // between tries to connect
	maxPause   = 100 * time.Millisecond // however long it takes
	pauseShare = 32                     // of what was waited until then, in between
	dialBound  = 400 * time.Millisecond // a lost packet is sent again only after a second
	greetBound = 5 * time.Second        // for the handshake, on a busy node
	keepAlive  = 15 * time.Second
	maxAnswer  = 64 << 20 // bytes of a run's whole answer
	maxRefusal = 64 << 10
	maxFresh   = 256 << 10
	maxCovers  = 256 << 10
	writeBound = 20 * time.Second // for the runner to take in a request
	// prepareBound is longer than the runner lets an import take.
	prepareBound = 80 * time.Second
	freshMargin  = 15 * time.Second // for an answer beyond the bound of its proof
)

// Dialer makes connections to runners.
type Dialer struct {
	// Dial makes the TCP connection; nil is the usual one.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// MaxAnswer bounds the bytes of a run's whole answer; zero means 64 MiB.
	MaxAnswer int64
}

// Connect dials the runner at addr, IP and port, with the usual Dialer.
func Connect(ctx context.Context, addr, secret string) (*Conn, error) {
	return Dialer{}.Connect(ctx, addr, secret)
}

// Connect tries until the runner answers or ctx ends. The runner's certificate
// is one that it made itself a moment ago: whoever answers first is spoken to,
// and nobody else afterwards, since the connection is kept, and others are made
// to the same certificate alone.
func (d Dialer) Connect(ctx context.Context, addr, secret string) (*Conn, error) {
	if d.Dial == nil {
		d.Dial = (&net.Dialer{KeepAlive: keepAlive}).DialContext
	}
	if d.MaxAnswer == 0 {
		d.MaxAnswer = maxAnswer
	}
	var told error // why it did not answer; that the time ran out in a try says less
	for began := time.Now(); ; {
		conn, err := d.once(ctx, addr, secret)
		if err == nil {
			return conn, nil
		}
		if told == nil || !over(ctx) {
			told = err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot connect to the runner at %q: %w; the last try: %w", addr, context.Cause(ctx), told)
		case <-time.After(pauseAfter(time.Since(began))):
		}
	}
}

// pauseAfter is in proportion to the wait: a pod whose runner is installed first
// takes some hundred milliseconds, of which little is to be lost here, and one
// that does not come at all is not to be dialled as often as that.
func pauseAfter(waited time.Duration) time.Duration {
	return min(max(minPause, waited/pauseShare), maxPause)
}

func (d Dialer) once(ctx context.Context, addr, secret string) (*Conn, error) {
	dialCtx, cancel := context.WithTimeout(ctx, dialBound)
	defer cancel()
	raw, err := d.Dial(dialCtx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	counted := &counter{Conn: raw}
	greeted := tls.Client(counted, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}) //nolint:gosec // see Connect
	greetCtx, cancelGreeting := context.WithTimeout(ctx, greetBound)
	defer cancelGreeting()
	if err := greeted.HandshakeContext(greetCtx); err != nil {
		raw.Close()
		return nil, err
	}
	c := &Conn{
		dial: d.Dial, addr: addr, secret: secret, maxAnswer: d.MaxAnswer,
		conn: greeted, counted: counted, reader: bufio.NewReader(greeted), broken: make(chan struct{}),
	}
	c.watch()
	return c, nil
}

// Conn is a connection to one runner. Its methods Fresh, Prepare and Run are called
// one after the other, Egress beside Run, Broken and Close at any time.
type Conn struct {
	dial         func(ctx context.Context, network, addr string) (net.Conn, error)
	addr, secret string
	maxAnswer    int64
	conn         *tls.Conn
	counted      *counter
	reader       *bufio.Reader

	next      chan error // one word: the next answer begins, or why there is none
	once      sync.Once
	broken    chan struct{}
	exchanges sync.Mutex
	ran       atomic.Bool
}

// watch waits for the first byte of an answer, or the end of the connection.
func (c *Conn) watch() {
	next := make(chan error, 1)
	c.next = next
	go func() {
		_, err := c.reader.Peek(1)
		if err != nil {
			c.breaks()
		}
		next <- err
	}()
}

// Broken is closed when the connection has ended, from either side.
func (c *Conn) Broken() <-chan struct{} { return c.broken }

// Close hangs up, which ends the runner's run if there is one.
func (c *Conn) Close() error {
	c.hangUp()
	return nil
}

// hangUp ends the connection. How that went matters to nobody, and a farewell
// would wait for a peer that takes nothing more.
func (c *Conn) hangUp() {
	_ = c.counted.Close()
	c.breaks()
}

func (c *Conn) breaks() { c.once.Do(func() { close(c.broken) }) }

func (c *Conn) isBroken() bool {
	select {
	case <-c.broken:
		return true
	default:
		return false
	}
}

func lost(err error) *api.Error {
	return api.Errorf(api.SandboxLost, "the connection to the runner ended: %w", err)
}

// counter counts the bytes that may have left.
type counter struct {
	net.Conn
	written atomic.Int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// over says whether the time is up: a dial that its deadline ends may return
// before the context knows.
func over(ctx context.Context) bool {
	end, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(end)
}
