package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/egress"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const fetcher = `import os, socket, ssl, urllib.request

def fetch(url):
    context = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(urllib.request.Request(url), timeout=10, context=context) as answer:
            return answer.read().decode()
    except OSError as e:
        body = e.read().decode() if hasattr(e, "read") else ""
        return "no: %s %s" % (e, body)

def direct(host, port):
    try:
        socket.create_connection((host, port), 5).close()
        return "connected"
    except OSError as e:
        return "no: %s" % e
`

// egressDriver is a driver with a proxy whose lookups come from a table.
func egressDriver(t *testing.T, table map[string]string) *Driver {
	t.Helper()
	p, err := egress.New(egress.Options{
		Logger: hclog.NewNullLogger(), Registry: prometheus.NewRegistry(),
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			a, err := netip.ParseAddr(table[host])
			return []netip.Addr{a}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return newDriver(t, func(o *Options) { o.Hook, o.Egress = hookFolder(t), p })
}

// A granted copy reaches its hosts by the proxy and nothing beside it; a copy
// without a grant reaches nothing.
func TestEgress(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s of %s", r.URL.Path, r.Host) })
	plain, secure, other := httptest.NewServer(handler), httptest.NewTLSServer(handler), httptest.NewServer(handler)
	for _, s := range []*httptest.Server{plain, secure, other} {
		t.Cleanup(s.Close)
	}
	at := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	_, port, _ := strings.Cut(at(plain), ":")
	d := egressDriver(t, map[string]string{"meta.example": "169.254.169.254", "turn.example": "127.0.0.1"})
	dir := project(t, map[string]string{"tools.py": fetcher})
	granted := &wire.Egress{Tool: "fetch", Hosts: []string{at(plain), at(secure), "meta.example:80", "turn.example:" + other.URL[strings.LastIndex(other.URL, ":")+1:]}}
	f := func(e *wire.Egress, function, want, denied string, args ...any) {
		t.Helper()
		before, _, _ := strings.Cut(fetcher, "def "+function+"(")
		tpl := copyOf(t, d, dir, "tools", function, 1+strings.Count(before, "\n"))
		tpl.Copy.Egress = e
		res, err := callOnce(t, d, tpl, 20, args...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(res.Call), want) || strings.Join(res.EgressDenied, " ") != denied {
			t.Errorf("%s%v: %s, denied %v", function, args, res.Call, res.EgressDenied)
		}
	}
	// By plain HTTP and by CONNECT.
	f(granted, "fetch", "/a of "+at(plain), "", plain.URL+"/a")
	f(granted, "fetch", "/b of "+at(secure), "", secure.URL+"/b")
	// Another server of the same machine, as itself and by a granted name; the metadata service, both ways.
	f(granted, "fetch", "no: ", at(other), other.URL)
	f(granted, "fetch", "this machine", "turn.example:"+other.URL[strings.LastIndex(other.URL, ":")+1:], strings.Replace(other.URL, "127.0.0.1", "turn.example", 1))
	f(granted, "fetch", "where clouds serve credentials", "meta.example:80", "http://meta.example/latest/meta-data")
	f(granted, "fetch", "no: ", "169.254.169.254:80", "http://169.254.169.254/latest/meta-data")
	// Beside the proxy, a granted host is as far away as any.
	f(granted, "direct", "no: ", "", "127.0.0.1", mustInt(t, port))
	f(granted, "direct", "no: ", "", "192.0.2.1", 80)
	// Another tool's grant is not this one's, and without any there is no proxy.
	f(&wire.Egress{Tool: "other", Hosts: []string{at(other)}}, "fetch", "no: ", at(plain), plain.URL)
	f(nil, "fetch", "no: ", "", plain.URL)
	f(nil, "direct", "no: ", "", "127.0.0.1", wire.ProxyPort)
}

func mustInt(t *testing.T, text string) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Where there is no proxy, a granted copy is refused, not made without.
func TestEgressFailsClosed(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{"tools.py": tools})
	tpl := copyOf(t, d, dir, "tools", "add", lineOf("add"))
	tpl.Copy.Egress = &wire.Egress{Tool: "add", Hosts: []string{"api.example:443"}}
	_, err := callOnce(t, d, tpl, 5, 1, 2)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.Unsandboxable || e.Reason != "no_egress" || e.Executed != api.No {
		t.Errorf("%v", err)
	}
}
