package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A step is what a scripted replica does with one connection. It is given the
// connection before TLS and after.
type step func(plain, secure net.Conn)

// replica accepts connections and does the step with each.
func replica(t testing.TB, ip, port string, cert tls.Certificate, do step) (address string, met *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
	if err != nil {
		t.Fatal(err)
	}
	met = &atomic.Int32{}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			met.Add(1)
			all.Go(func() {
				defer conn.Close()
				do(conn, tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}}))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String(), met
}

// Steps of a run: each does those before it.
func headers(c net.Conn) *bufio.Reader {
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == "\r\n" {
			return r
		}
	}
}

func body(c net.Conn) {
	r := headers(c)
	_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
	_ = json.NewDecoder(r).Decode(&api.RunBody{})
}

func answer(c net.Conn, status int, body string) {
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d No\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

const ok = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

func serve(_, c net.Conn) {
	body(c)
	_, _ = io.WriteString(c, ok+`{"stream":"stdout","text":"hi"}`+"\n"+`{"result":{"sandbox_id":"s","outcome":"ok"}}`+"\n")
	_ = c.Close()
}

func newClient(t testing.TB, ca []byte, address string, change ...func(*Options)) *Client {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Address: address, ServerName: "pool.test", TokenFile: token, CA: ca, Patience: 600 * time.Millisecond}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A replica that dies at each step. Before the program was sent the run goes to
// the other replica; from then on it is lost, and may have run.
func TestDeath(t *testing.T) {
	cert, ca := pooltest.Certificate(t)
	f := func(dies step, want api.Code) {
		t.Helper()
		first, met := replica(t, "127.0.0.1", "0", cert, dies)
		_, port, _ := net.SplitHostPort(first)
		_, other := replica(t, "127.0.0.2", port, cert, serve)
		c := newClient(t, ca, "pool.test:"+port, func(o *Options) {
			o.Lookup = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1", "127.0.0.2"}, nil }
			o.Self = "first"
			for i := 0; ranked([]string{"127.0.0.1", "127.0.0.2"}, port, o.Self)[0] != first; i++ {
				o.Self = fmt.Sprint(i)
			}
		})
		res, err := c.Run(t.Context(), &wire.Request{Code: "x"}, nil)
		if met.Load() == 0 {
			t.Error("the first replica was not asked")
		}
		if want == "" {
			if err != nil || res.SandboxID != "s" || other.Load() != 1 {
				t.Error(res, err)
			}
			return
		}
		if e := api.From(err); e.Code != want || e.Executed != api.Maybe || other.Load() != 0 {
			t.Error(err, other.Load())
		}
	}
	// At the handshake, in it, after it, after the headers.
	f(func(c, _ net.Conn) { c.Close() }, "")
	f(func(c, _ net.Conn) { _, _ = c.Read(make([]byte, 1)) }, "")
	f(func(_, c net.Conn) { _ = c.(*tls.Conn).Handshake() }, "")
	f(func(_, c net.Conn) { headers(c) }, "")
	// A certificate for another name.
	strange, _ := pooltest.Certificate(t)
	f(func(c, _ net.Conn) {
		_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{strange}}).Handshake()
	}, "")
	// It stops: nothing ran, another is asked.
	f(func(_, c net.Conn) {
		headers(c)
		answer(c, 503, `{"error":{"code":"no_capacity","message":"m","retryable":true,"executed":"no","reason":"draining"}}`)
	}, "")
	// Amid the program, after it, after the answer's head, amid a line, after output.
	f(func(_, c net.Conn) {
		r := headers(c)
		_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		_, _ = r.ReadByte()
	}, api.SandboxLost)
	f(func(_, c net.Conn) { body(c) }, api.SandboxLost)
	f(func(_, c net.Conn) { body(c); _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n") }, api.SandboxLost)
	f(func(_, c net.Conn) { body(c); _, _ = io.WriteString(c, ok+`{"result":{"sandb`) }, api.SandboxLost)
	f(func(_, c net.Conn) {
		body(c)
		_, _ = io.WriteString(c, ok+`{"stream":"stdout","text":"hi"}`+"\n")
	}, api.SandboxLost)
	// No pool: lines and statuses that mean nothing.
	f(func(_, c net.Conn) { body(c); _, _ = io.WriteString(c, ok+`{"stream":"else"}`+"\n") }, api.SandboxLost)
	f(func(_, c net.Conn) { body(c); _, _ = io.WriteString(c, ok+`{}`+"\n") }, api.SandboxLost)
	f(func(_, c net.Conn) {
		body(c)
		_, _ = io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
	}, api.Internal)
}

func TestAnswers(t *testing.T) {
	cert, ca := pooltest.Certificate(t)
	f := func(text string, want api.Code, executed api.Executed) {
		t.Helper()
		address, _ := replica(t, "127.0.0.1", "0", cert, func(_, c net.Conn) {
			body(c)
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		})
		_, err := newClient(t, ca, address, func(o *Options) { o.AnswerBytes = 1000 }).Run(t.Context(), &wire.Request{Code: "x"}, nil)
		if e := api.From(err); e.Code != want || e.Executed != executed {
			t.Errorf("%v: %v", text, err)
		}
	}
	// An error after output, and one with a code of a later version.
	f(ok+`{"stream":"stdout","text":"a"}`+"\n"+`{"error":{"code":"timeout","executed":"maybe"}}`+"\n", api.Timeout, api.Maybe)
	f(ok+`{"error":{"code":"new_code","executed":"perhaps"}}`+"\n", api.Internal, api.Maybe)
	// Too long: in one line, and in many.
	f(ok+`{"stream":"stdout","text":"`+strings.Repeat("x", 2000)+`"}`+"\n", api.Internal, api.Maybe)
	f(ok+strings.Repeat(`{"stream":"stdout","text":"a"}`+"\n", 100), api.Internal, api.Maybe)
}

// A pool that is not there: the run waits as long as its own time is kept, and
// is then refused; nothing ran. One that comes in time serves it.
func TestLatePool(t *testing.T) {
	cert, ca := pooltest.Certificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	c := newClient(t, ca, "127.0.0.1:"+port)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	began := time.Now()
	_, err = c.Run(ctx, &wire.Request{Code: "x", TimeoutSeconds: 1}, nil)
	e := api.From(err)
	if e.Code != api.NoCapacity || !e.Retry || e.Executed != api.No || ctx.Err() != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 1200*time.Millisecond {
		t.Errorf("it waited %v only", took)
	}
	if c.Ready() == nil {
		t.Error("ready without a pool")
	}
	go func() {
		time.Sleep(300 * time.Millisecond)
		replica(t, "127.0.0.1", port, cert, serve)
	}()
	if _, err := c.Run(t.Context(), &wire.Request{Code: "x"}, nil); err != nil || c.Ready() != nil {
		t.Error(err, c.Ready())
	}
}

// It is too late to begin when what is left is the program's own time, or half
// of all, and the margin in which the pool tells what became of it.
func TestGiveUp(t *testing.T) {
	c := &Client{opts: Options{Patience: 600 * time.Millisecond}}
	f := func(whole, program, want time.Duration) {
		t.Helper()
		now := time.Now()
		ctx := t.Context()
		if whole > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, now.Add(whole))
			defer cancel()
		}
		if got := c.giveUp(ctx, &wire.Request{TimeoutSeconds: program.Seconds()}, now).Sub(now); got != want {
			t.Errorf("of %v for a program of %v it gives up after %v, want %v", whole, program, got, want)
		}
	}
	f(3*time.Second, time.Second, 1700*time.Millisecond)
	f(3*time.Second, 10*time.Second, 1200*time.Millisecond)
	f(90*time.Second, 30*time.Second, 59500*time.Millisecond)
	f(0, 30*time.Second, 600*time.Millisecond)
}

// Caller leaves before and after the program was sent.
func TestCallerLeaves(t *testing.T) {
	cert, ca := pooltest.Certificate(t)
	f := func(do step, executed api.Executed) {
		t.Helper()
		address, _ := replica(t, "127.0.0.1", "0", cert, func(p, c net.Conn) { do(p, c); _, _ = c.Read(make([]byte, 1)) })
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(200*time.Millisecond, func() { cancel(errors.New("gone")) })
		_, err := newClient(t, ca, address).Run(ctx, &wire.Request{Code: "x"}, nil)
		if e := api.From(err); e.Code != api.Timeout || e.Executed != executed {
			t.Error(err)
		}
	}
	f(func(_, c net.Conn) { headers(c) }, api.No)
	f(func(_, c net.Conn) { body(c) }, api.Maybe)
}

// A token that was renewed is used at once, and tried when the old is refused.
func TestToken(t *testing.T) {
	cert, ca := pooltest.Certificate(t)
	var seen []string
	var c *Client
	address, _ := replica(t, "127.0.0.1", "0", cert, func(_, conn net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		seen = append(seen, req.Header.Get("Authorization"))
		if len(seen) == 2 { // renewed while the run was on its way
			_ = os.WriteFile(c.token.path, []byte("third"), 0o600)
		}
		answer(conn, 401, `{"error":{"code":"unauthenticated","executed":"no"}}`)
	})
	c = newClient(t, ca, address)
	run := func() {
		t.Helper()
		if _, err := c.Run(t.Context(), &wire.Request{Code: "x"}, nil); api.From(err).Executed != api.No {
			t.Error(err)
		}
	}
	run()
	if err := os.WriteFile(c.token.path, []byte("second\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run()
	if got := strings.Join(seen, ","); got != "Bearer t,Bearer second,Bearer third" {
		t.Error(got)
	}
	// A file that goes away for a moment leaves the token of before.
	if err := os.Remove(c.token.path); err != nil {
		t.Fatal(err)
	}
	if token, err := c.token.read(); err != nil || token != "third" {
		t.Error(token, err)
	}
}

func TestRoots(t *testing.T) {
	_, first := pooltest.Certificate(t)
	_, second := pooltest.Certificate(t)
	path := filepath.Join(t.TempDir(), "ca.pem")
	r, err := newRoots(Options{CAFile: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.current(); err == nil {
		t.Error("no file, and no error")
	}
	f := func(content []byte, want []byte) {
		t.Helper()
		if err := os.WriteFile(path+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		wanted := x509.NewCertPool()
		wanted.AppendCertsFromPEM(want)
		if got, err := r.current(); err != nil || !got.Equal(wanted) {
			t.Error(err)
		}
	}
	f(first, first)
	// An overlap of two, then the new alone; what is no certificate changes nothing.
	f(append(first, second...), append(first, second...))
	f(second, second)
	f([]byte("nonsense"), second)
	if _, err := newRoots(Options{CA: []byte("nonsense")}); err == nil {
		t.Error("nonsense is a CA")
	}
}

// The order is each client's own, does not depend on the lookup's, and when a
// replica goes away only its clients move.
func TestRanked(t *testing.T) {
	ips := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
	counts := map[string]int{}
	for i := range 3000 {
		self := fmt.Sprint("pod-", i)
		order := ranked(ips, "1", self)
		if other := ranked([]string{ips[2], ips[0], ips[1], ips[0]}, "1", self); strings.Join(order, " ") != strings.Join(other, " ") {
			t.Fatal(order, other)
		}
		counts[order[0]]++
		if left := ranked(ips[:2], "1", self); order[0] != "10.0.0.3:1" && left[0] != order[0] {
			t.Fatal(order, left)
		}
	}
	for address, n := range counts {
		if n < 850 || n > 1150 {
			t.Errorf("%s is first for %d of 3000", address, n)
		}
	}
}

func TestNew(t *testing.T) {
	f := func(o Options, want string) {
		t.Helper()
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
	f(Options{Address: "pool"}, "host:port")
	f(Options{Address: "pool:1"}, "token")
	f(Options{Address: "pool:1", TokenFile: "t"}, "CA")
	f(Options{Address: "pool:1", TokenFile: "t", CA: []byte("x")}, "PEM")
}
