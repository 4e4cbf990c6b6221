package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A call has so many bytes, in both directions and over all connections.
func TestBytes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, strings.Repeat("x", 100<<10)) // the proxy hangs up
	}))
	t.Cleanup(server.Close)
	b := newBench(t, []string{"127.0.0.1:" + port(t, server.Listener.Addr())}, func(o *Options) { o.Bytes = 250 << 10 })
	whole := 0
	for range 4 {
		if code, body := b.get(t, server.URL); code == 200 && len(body) == 100<<10 {
			whole++
		}
	}
	if whole != 2 {
		t.Errorf("%d answers of 100 KiB came within 250 KiB", whole)
	}
	res, err := b.client.Post(server.URL, "text/plain", strings.NewReader(strings.Repeat("y", 1<<20)))
	if err == nil {
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			t.Error("a MiB was sent")
		}
	}
	b.close()
	if n := testutil.ToFloat64(b.proxy.metrics.bytes.WithLabelValues("search", "received")); n > 300<<10 {
		t.Errorf("%g bytes came", n)
	}
}

// echo is a server that sends back what it gets.
func echo(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
			}()
		}
	}()
	return l
}

// connect opens a tunnel by hand.
func connect(t *testing.T, proxy, to string) (net.Conn, string) {
	t.Helper()
	conn, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	status, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	if err != nil {
		return conn, ""
	}
	_ = conn.SetReadDeadline(time.Time{})
	return conn, status
}

// A call has so many connections at once; one more waits until one has ended.
func TestConnections(t *testing.T) {
	l := echo(t)
	b := newBench(t, []string{l.Addr().String()})
	var first net.Conn
	for i := range maxOpen {
		conn, status := connect(t, b.address, l.Addr().String())
		if !strings.Contains(status, "200") {
			t.Fatalf("connection %d: %q", i, status)
		}
		if first == nil {
			first = conn
		}
	}
	conn, status := connect(t, b.address, l.Addr().String())
	if status != "" {
		t.Fatalf("one more was answered: %q", status)
	}
	_ = first.Close()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("after one has ended: %q %v", line, err)
	}
}

// A call has so many requests.
func TestRequests(t *testing.T) {
	plain, _ := servers(t)
	b := newBench(t, []string{"127.0.0.1:" + plain})
	b.session.requests.Store(maxRequests - 1)
	f := func(want int) {
		t.Helper()
		if code, body := b.get(t, "http://127.0.0.1:"+plain); code != want {
			t.Errorf("%d %s", code, body)
		}
	}
	f(200)
	f(http.StatusTooManyRequests)
}

// quick is a listener of a program that connects and hangs up at once, so many
// times, and then waits.
type quick struct {
	times    int
	accepted int
	closed   chan struct{}
	once     sync.Once
}

func (q *quick) Accept() (net.Conn, error) {
	if q.accepted == q.times {
		<-q.closed
		return nil, net.ErrClosed
	}
	q.accepted++
	ours, program := net.Pipe()
	return ours, program.Close()
}

func (q *quick) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

func (q *quick) Addr() net.Addr { return &net.TCPAddr{} }

// A call has so many connections in its whole life, whatever comes of them: each is
// a handshake of the pool's. No more are fetched, and the call ends as any other.
func TestConnectionsWithoutRequests(t *testing.T) {
	f := func(times, want int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			log := &strings.Builder{}
			p, err := New(Options{Logger: hclog.New(&hclog.LoggerOptions{Output: log}), Registry: prometheus.NewRegistry(), Lookup: names(nil)})
			if err != nil {
				t.Fatal(err)
			}
			q := &quick{times: times, closed: make(chan struct{})}
			s := p.Serve(q, "sb-1", &wire.Egress{Tool: "search", Hosts: []string{"api.example:80"}})
			synctest.Wait() // nothing goes on any more
			if q.accepted != want {
				t.Errorf("%d of %d connections were fetched, want %d", q.accepted, times, want)
			}
			s.Close()
			if log.Len() > 0 {
				t.Errorf("the log says %s", log)
			}
		})
	}
	f(10, 10)
	f(maxConnections, maxConnections)
	f(2*maxConnections, maxConnections)
}

// Nothing outlives its sandbox: neither a tunnel nor a request that hangs.
func TestCloseEnds(t *testing.T) {
	l := echo(t)
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hang:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	b := newBench(t, []string{l.Addr().String(), "127.0.0.1:" + port(t, server.Listener.Addr())})
	conn, status := connect(t, b.address, l.Addr().String())
	if !strings.Contains(status, "200") {
		t.Fatalf("%q", status)
	}
	answered := make(chan int, 1)
	go func() {
		code, _ := b.get(t, server.URL)
		answered <- code
	}()
	for b.session.requests.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	b.close()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("closing took %s", took)
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the tunnel is still open")
	}
	if code := <-answered; code == 200 {
		t.Error("the request was answered")
	}
}

// The end of one way of a tunnel is passed on, and the other goes on.
func TestHalfClose(t *testing.T) {
	l := echo(t)
	b := newBench(t, []string{l.Addr().String()})
	conn, status := connect(t, b.address, l.Addr().String())
	if !strings.Contains(status, "200") {
		t.Fatalf("%q", status)
	}
	_, _ = io.WriteString(conn, "to and fro")
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(got), "to and fro") {
		t.Errorf("%q %v", got, err)
	}
}
