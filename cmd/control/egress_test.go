package main

import (
	"errors"
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

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/pool/egress"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// What sandboxes must not reach they do not reach by the proxy, whatever a grant
// names; and no private address is open that the operator has not named.
func TestEgressIsClosed(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "203.0.113.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	parsed := func(more ...string) (poolOptions, error) {
		return parsePool(append([]string{"--namespace=system", "--image=python", "--runner-image=product", "--names=pool", "--pod-ip=10.0.0.7"}, more...))
	}
	o, err := parsed("--canaries=198.51.100.7:22", "--egress-deny=2001:db8::/32, 203.0.114.5/24")
	if err != nil {
		t.Fatal(err)
	}
	if o.egressClosed.Private == nil || len(o.egressClosed.Private) > 0 {
		t.Errorf("a grant may open %v", o.egressClosed.Private)
	}
	for _, want := range []string{"203.0.113.1/32", "198.51.100.7/32", "2001:db8::/32", "203.0.114.0/24"} {
		if !slices.Contains(o.egressClosed.Never, netip.MustParsePrefix(want)) {
			t.Errorf("%s is not closed: %v", want, o.egressClosed.Never)
		}
	}
	// Without a proof of the network the API server and the canaries stay closed.
	if o, err = parsed("--network-proof=off", "--canaries=198.51.100.7:22, [2001:db8::7]:22", "--egress-private=10.1.0.0/16"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.egressClosed.Private, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}) {
		t.Errorf("a grant may open %v", o.egressClosed.Private)
	}
	for _, want := range []string{"203.0.113.1/32", "198.51.100.7/32", "2001:db8::7/128"} {
		if !slices.Contains(o.egressClosed.Never, netip.MustParsePrefix(want)) {
			t.Errorf("%s is not closed: %v", want, o.egressClosed.Never)
		}
	}
	f := func(says string, args ...string) {
		t.Helper()
		if _, err := parsed(args...); !errors.Is(err, flags.ErrUsage) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", args, err)
		}
	}
	f("it can be on or off", "--egress=maybe")
	f(`--egress-private has "10.0.0.1"`, "--egress-private=10.0.0.1")
	f(`--egress-deny has "all"`, "--egress-deny=all")
	f("write addresses of IPv4 as such", "--egress-deny=::ffff:10.0.0.0/104")
	f(`--canaries has "kubernetes:443"`, "--canaries=kubernetes:443")
	f(`--canaries has "10.0.0.1"`, "--network-proof=off", "--canaries=10.0.0.1")
}

// A grant that may open a network of private addresses does not open the pool
// itself in it: its ports serve more than tools may read.
func TestEgressDoesNotReachThePool(t *testing.T) {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") }))
	defer served.Close()
	_, port, err := net.SplitHostPort(served.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	o, err := parsePool([]string{"--namespace=system", "--image=python", "--names=pool", "--pod-ip=10.0.0.7", "--egress-private=0.0.0.0/0,::/0"})
	if err != nil {
		t.Fatal(err)
	}
	o.egressClosed.Logger, o.egressClosed.Registry = hclog.NewNullLogger(), prometheus.NewRegistry()
	proxy, err := egress.New(o.egressClosed)
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{"10.0.0.7", "127.0.0.1", "127.8.8.8", "::1"}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		addresses = append(addresses, netip.MustParsePrefix(one.String()).Addr().String())
	}
	for _, address := range addresses {
		place := net.JoinHostPort(address, port)
		if status, body := throughProxy(t, proxy, place); status != http.StatusForbidden || !strings.Contains(body, "closed by the settings") {
			t.Errorf("%s answers a granted tool: %d %s", place, status, body)
		}
	}
}

// throughProxy is what a tool that is granted a place reads there.
func throughProxy(t *testing.T, proxy *egress.Proxy, place string) (status int, body string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Serve(l, "sb-1", &wire.Egress{Tool: "search", Hosts: []string{place}}).Close()
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()})}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Get("http://" + place + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestNamesAreAbsolute(t *testing.T) {
	for host, want := range map[string]string{"api.example": "api.example.", "api.example.": "api.example.", "localhost": "localhost"} {
		if got := absolute(host); got != want {
			t.Errorf("%s is looked up as %s", host, got)
		}
	}
}
