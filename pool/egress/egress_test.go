package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// bench is a proxy with one session, and a client that goes through it.
type bench struct {
	proxy   *Proxy
	session *Session
	address string
	client  *http.Client
	closed  bool
}

func newBench(t *testing.T, hosts []string, change ...func(*Options)) *bench {
	t.Helper()
	o := Options{Logger: hclog.NewNullLogger(), Registry: prometheus.NewRegistry(), Lookup: names(nil)}
	for _, f := range change {
		f(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{proxy: p, address: l.Addr().String()}
	b.session = p.Serve(l, "sb-1", &wire.Egress{Tool: "search", Hosts: hosts})
	transport := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: b.address}),
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the server of this test
	}
	b.client = &http.Client{Transport: transport, Timeout: 20 * time.Second}
	t.Cleanup(func() { b.close(); transport.CloseIdleConnections() })
	return b
}

func (b *bench) close() []string {
	if b.closed {
		return nil
	}
	b.closed = true
	return b.session.Close()
}

// names is a lookup out of a table.
func names(table map[string]string) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		a, ok := table[host]
		if !ok {
			return nil, fmt.Errorf("no such host")
		}
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
}

func local(o *Options) { o.Lookup = names(map[string]string{"api.example": "127.0.0.1"}) }

// servers are one plain and one with TLS; each tells what it was asked.
func servers(t *testing.T) (plain, secure string) {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what came of it is told
		fmt.Fprintf(w, "%s %s %s %q", r.Method, r.Host, r.URL, body)
	})
	one, two := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(one.Close)
	t.Cleanup(two.Close)
	return port(t, one.Listener.Addr()), port(t, two.Listener.Addr())
}

func port(t *testing.T, a net.Addr) string {
	t.Helper()
	_, p, err := net.SplitHostPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// get is the status and the body; what the client itself says is status 0.
func (b *bench) get(t *testing.T, at string) (int, string) {
	t.Helper()
	res, err := b.client.Get(at)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return res.StatusCode, err.Error()
	}
	return res.StatusCode, string(body)
}

func TestAllowed(t *testing.T) {
	plain, secure := servers(t)
	b := newBench(t, []string{"api.example:" + plain, "api.example:" + secure, "127.0.0.1:" + plain, "127.0.0.1:" + secure}, local)
	f := func(at, want string) {
		t.Helper()
		if code, body := b.get(t, at); code != 200 || body != want {
			t.Errorf("%d %s", code, body)
		}
	}
	// Absolute form and CONNECT, by name and by address.
	f("http://api.example:"+plain+"/a?b=c", "GET api.example:"+plain+" /a?b=c \"\"")
	f("https://api.example:"+secure+"/a", "GET api.example:"+secure+" /a \"\"")
	f("http://127.0.0.1:"+plain+"/", "GET 127.0.0.1:"+plain+" / \"\"")
	res, err := b.client.Post("http://API.example:"+plain, "text/plain", strings.NewReader("hello"))
	if err != nil || res.StatusCode != 200 {
		t.Errorf("%v %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	if denied := b.close(); denied != nil {
		t.Errorf("denied were %v", denied)
	}
	if n := testutil.ToFloat64(b.proxy.metrics.requests.WithLabelValues("search", allowed)); n != 4 {
		t.Errorf("%g requests were counted", n)
	}
	if n := testutil.ToFloat64(b.proxy.metrics.bytes.WithLabelValues("search", "received")); n < 100 {
		t.Errorf("%g bytes were counted", n)
	}
}

// Whatever is not granted is refused, with a sentence, and told at the end.
func TestDenied(t *testing.T) {
	plain, secure := servers(t)
	table := map[string]string{"api.example": "127.0.0.1", "meta.example": "169.254.169.254", "inside.example": "10.0.0.5", "me.example": "203.0.113.77"}
	b := newBench(t, []string{"api.example:" + plain, "meta.example:80", "inside.example:80", "inside.example:443", "me.example:80"}, func(o *Options) {
		o.Lookup = names(table)
		o.Own = func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("203.0.113.77")} }
	})
	f := func(at string, says string) {
		t.Helper()
		if code, body := b.get(t, at); code != http.StatusForbidden && code != 0 || !strings.Contains(body, says) {
			t.Errorf("%s: %d %s", at, code, body)
		}
	}
	// A granted name that leads to this machine, inside, or to the metadata service.
	f("http://api.example:"+plain, "is this machine")
	f("http://inside.example/", "is private")
	f("https://inside.example/", "Forbidden")
	f("http://meta.example/latest", "where clouds serve credentials")
	f("http://me.example/", "203.0.113.77 is this machine")
	// What no grant names: another port, name, address, spelling.
	f("http://api.example:"+secure, "not granted to tool")
	f("http://other.example/", "not granted to tool")
	f("http://127.0.0.1:"+plain, "not granted to tool")
	f("http://[::ffff:127.0.0.1]:"+plain, "not granted to tool")
	f("http://169.254.169.254/latest/meta-data", "not granted to tool")
	denied := b.close()
	want := []string{"api.example:" + plain, "inside.example:80", "inside.example:443", "meta.example:80", "me.example:80", "api.example:" + secure,
		"other.example:80", "127.0.0.1:" + plain, "169.254.169.254:80"}
	if !slices.Equal(denied, want) {
		t.Errorf("denied were %v", denied)
	}
}

func TestAddress(t *testing.T) {
	f := func(address string, open, openNamed bool) {
		t.Helper()
		a := netip.MustParseAddr(address)
		if got := Address(a, false, nil) == nil; got != open {
			t.Errorf("%s: open is %v", address, got)
		}
		if got := Address(a, true, nil) == nil; got != openNamed {
			t.Errorf("%s named: open is %v", address, got)
		}
	}
	f("93.184.216.34", true, true)
	f("2606:2800:220:1::1", true, true)
	// Private ones, and this machine: by their own name only.
	for _, a := range []string{"10.1.2.3", "172.31.0.1", "192.168.1.1", "100.64.0.1", "127.0.0.1", "127.9.9.9", "::1", "fd12::1", "::ffff:10.0.0.1", "198.18.0.1"} {
		f(a, false, true)
	}
	// Never: where credentials are served, and what carries another address.
	for _, a := range []string{"169.254.169.254", "169.254.170.2", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16",
		"0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::127.0.0.1"} {
		f(a, false, false)
	}
}

// On a cluster the operator says which private addresses a grant can open, and
// what none opens: the proxy stands where more is in reach than of an agent.
func TestSettings(t *testing.T) {
	plain, _ := servers(t)
	f := func(want int, says string, hosts []string, at string, change func(*Options)) {
		t.Helper()
		b := newBench(t, hosts, local, change)
		if code, body := b.get(t, "http://"+at+":"+plain); code != want || !strings.Contains(body, says) {
			t.Errorf("%d %s", code, body)
		}
	}
	private := func(list ...string) func(*Options) {
		return func(o *Options) {
			o.Private = []netip.Prefix{}
			for _, p := range list {
				o.Private = append(o.Private, netip.MustParsePrefix(p))
			}
		}
	}
	never := func(o *Options) { o.Never = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} }
	both := func(o *Options) { private("127.0.0.0/8")(o); never(o) }
	named := []string{"127.0.0.1:" + plain, "api.example:" + plain}
	// The address is named by the grant: it is open, unless the operator says no.
	f(200, "GET", named, "127.0.0.1", func(*Options) {})
	f(403, "is this machine", named, "127.0.0.1", private())
	f(403, "is this machine", named, "127.0.0.1", private("10.0.0.0/8"))
	f(200, "GET", named, "127.0.0.1", private("127.0.0.0/30"))
	f(200, "GET", named, "api.example", private("127.0.0.0/30"))
	f(403, "closed by the settings", named, "127.0.0.1", never)
	f(403, "closed by the settings", named, "api.example", never)
	// It is said of an address in a network that is open: no counts.
	f(403, "closed by the settings", named, "127.0.0.1", both)
	f(403, "closed by the settings", named, "api.example", both)
	// What nobody names is closed in either case.
	f(403, "is this machine", named[1:], "api.example", private("127.0.0.0/30"))
}

// Grants are the agents' words: there are only so many values of a label.
func TestToolsAreBounded(t *testing.T) {
	p, err := New(Options{Logger: hclog.NewNullLogger(), Registry: prometheus.NewRegistry(), Lookup: names(nil)})
	if err != nil {
		t.Fatal(err)
	}
	f := func(tool, want string) {
		t.Helper()
		s := p.Serve(&quick{closed: make(chan struct{})}, "sb-1", &wire.Egress{Tool: tool, Hosts: []string{"api.example:80"}})
		s.ends("other.example:80", denied, "it is not granted")
		s.Close()
		if s.label != want {
			t.Errorf("%.50q is counted as %q, want %q", tool, s.label, want)
		}
	}
	f(strings.Repeat("x", maxToolName+1), otherTools)
	for i := range maxTools {
		tool := fmt.Sprint("tool-", i)
		f(tool, tool)
	}
	f("late", otherTools)
	f("later", otherTools)
	f("tool-1", "tool-1")
	for what, c := range map[string]prometheus.Collector{"requests": p.metrics.requests, "bytes sent and received": p.metrics.bytes} {
		want := maxTools + 1
		if what != "requests" {
			want *= 2
		}
		if n := testutil.CollectAndCount(c); n != want {
			t.Errorf("%d rows are of %s, want %d", n, what, want)
		}
	}
	if n := testutil.ToFloat64(p.metrics.requests.WithLabelValues(otherTools, denied)); n != 3 {
		t.Errorf("%g requests are counted together", n)
	}
}

// What is no request for a proxy is refused, and harms nobody.
func TestNoRequest(t *testing.T) {
	b := newBench(t, []string{"api.example:80"}, local)
	f := func(text, status string) {
		t.Helper()
		conn, err := net.Dial("tcp", b.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, status) {
			t.Errorf("%q: %q %v", text, line, err)
		}
	}
	f("GET / HTTP/1.1\r\nHost: api.example\r\n\r\n", "400")
	f("GET https://api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n", "400")
	f("GET ftp://api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n", "400")
	f("GET http://user:word@api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n", "400")
	f("CONNECT api.example HTTP/1.1\r\nHost: api.example\r\n\r\n", "400")
	f("CONNECT 2130706433:80 HTTP/1.1\r\nHost: x\r\n\r\n", "400")
	f("CONNECT 0x7f.1:80 HTTP/1.1\r\nHost: x\r\n\r\n", "400")
	f("\x16\x03\x01garbage\r\n\r\n", "400")
	f("GET http://api.example/"+strings.Repeat("a", 100<<10)+" HTTP/1.1\r\n\r\n", "431")
}

// The host that is asked is the one of the address, whatever the header says.
func TestHostHeader(t *testing.T) {
	plain, _ := servers(t)
	b := newBench(t, []string{"127.0.0.1:" + plain})
	conn, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n", plain)
	if got, err := io.ReadAll(conn); err != nil || !strings.Contains(string(got), "GET 127.0.0.1:"+plain) {
		t.Errorf("%s %v", got, err)
	}
}
