//go:build e2e

package kube_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/proxy"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/kube"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/test/cluster"
	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// site is a namespace for sandboxes as the chart makes it, and drivers there.
type site struct {
	*e2e.Space
	asked recorder
}

func newSite(t *testing.T, policies bool) *site {
	t.Helper()
	s := &site{Space: e2e.NewSpace(t, e2e.Labels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}))}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "code-sandbox-run"}, AutomountServiceAccountToken: new(false)}
	if _, err := s.Kube.CoreV1().ServiceAccounts(s.Name).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !policies {
		return s
	}
	for _, p := range kube.NetworkPolicies(kube.NetworkConfig{
		Namespace: s.Name, PoolNamespace: "code-sandbox", PoolLabels: map[string]string{kube.LabelComponent: kube.ComponentPool},
		DNSNamespace: "kube-system", DNSLabels: map[string]string{"k8s-app": "kube-dns"},
	}) {
		if _, err := s.Kube.NetworkingV1().NetworkPolicies(s.Name).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// template is the bed's Python, with limits that many of it fit into.
func (s *site) template() pool.Template {
	limits := wire.DefaultLimits()
	limits.MemoryBytes, limits.DiskBytes = 160<<20, 64<<20
	return pool.Template{Image: s.Image("python"), Limits: limits, DNS: kube.DNSRelay}
}

// driver makes a driver that runs until the test ends.
func (s *site) driver(t *testing.T, change func(*kube.Options)) *kube.Driver {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recording{to: &s.asked, next: next} })
	pods, bookkeeping, err := kube.Clients(config)
	if err != nil {
		t.Fatal(err)
	}
	socks, err := proxy.SOCKS5("tcp", s.Bed.Socks, nil, proxy.Direct)
	if err != nil {
		t.Fatal(err)
	}
	opts := kube.Options{
		Client: pods, Bookkeeping: bookkeeping,
		Pods:     kube.PodConfig{Namespace: s.Name, RunnerImage: s.Image("code-sandbox"), CPU: "100m", RunnerMemory: 64 << 20},
		Canaries: []string{cluster.APIIP + ":443", cluster.WorldIP + ":80"},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return socks.(proxy.ContextDialer).DialContext(ctx, network, addr)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: testWriter{t}}),
	}
	if change != nil {
		change(&opts)
	}
	d, err := kube.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return d
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// recorder keeps what drivers ask the API server for.
type recorder struct {
	mu   sync.Mutex
	said []string
}

type recording struct {
	to   *recorder
	next http.RoundTripper
}

func (r *recording) RoundTrip(req *http.Request) (*http.Response, error) {
	r.to.mu.Lock()
	r.to.said = append(r.to.said, req.Method+" "+req.URL.Path)
	r.to.mu.Unlock()
	return r.next.RoundTrip(req)
}

// during is what was asked for while act ran, the Lease's renewals left out:
// they are nobody's in particular.
func (r *recorder) during(act func()) []string {
	r.mu.Lock()
	r.said = nil
	r.mu.Unlock()
	act()
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for _, line := range r.said {
		if !strings.Contains(line, "/leases") {
			found = append(found, line)
		}
	}
	return found
}

// The driver does what is asked of every driver, on a real cluster, with the
// chart's NetworkPolicies around it and Pod Security at its strictest.
func TestConformance(t *testing.T) {
	s := newSite(t, true)
	pooltest.Conformance(t, func(t *testing.T) pool.Driver { return s.driver(t, nil) }, s.template())
}

// A run asks the API server for nothing: no write, no read, no exec.
func TestRunAsksNothing(t *testing.T) {
	s := newSite(t, true)
	d := s.driver(t, nil)
	if _, err := d.Watch(t.Context()); err != nil { // it runs
		t.Fatal(err)
	}
	var boxes []pool.Sandbox
	asked := s.asked.during(func() {
		for range 3 {
			began := time.Now()
			box, err := d.Start(t.Context(), s.template())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("started in %v", time.Since(began))
			boxes = append(boxes, box)
		}
	})
	if len(asked) != 3 { // so that the count below can fail
		t.Errorf("three starts asked for %v", asked)
	}
	asked = s.asked.during(func() {
		for _, box := range boxes {
			began := time.Now()
			res, err := box.Run(t.Context(), &wire.Request{Code: "print(6*7)"}, nil)
			if err != nil || res.Stdout != "42\n" || res.Isolation != "pod" {
				t.Errorf("got %+v, %v", res, err)
			}
			t.Logf("ran in %v", time.Since(began))
		}
	})
	if len(asked) > 0 {
		t.Errorf("runs asked the API server for %v", asked)
	}
	asked = s.asked.during(func() {
		for _, box := range boxes {
			if err := d.Destroy(t.Context(), box.ID()); err != nil {
				t.Error(err)
			}
		}
	})
	if len(asked) != 3 {
		t.Errorf("three destructions asked for %v", asked)
	}
}
