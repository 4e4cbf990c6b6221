package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/api/client"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/server"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// tokens are callers by token; "slow" cannot be verified.
type tokens map[string]pool.Caller

func (all tokens) Resolve(ctx context.Context, token string, _ netip.Addr) (pool.Caller, error) {
	if token == "slow" {
		return pool.Caller{}, api.Errorf(api.NoCapacity, "the API server does not answer")
	}
	c, ok := all[token]
	if !ok {
		return c, api.Errorf(api.Unauthenticated, "the token is not good")
	}
	return c, nil
}

// service is a pool of fake sandboxes behind a real server.
type service struct {
	*server.Server
	ca       []byte
	fake     *pooltest.Fake
	registry *prometheus.Registry
	audit    *pooltest.Buffer
	log      *pooltest.Buffer
	stop     func() error
}

func start(t testing.TB, run pooltest.RunFunc, change ...func(*server.Options)) *service {
	t.Helper()
	s := &service{fake: &pooltest.Fake{Run: run}, registry: prometheus.NewRegistry(), audit: &pooltest.Buffer{}, log: &pooltest.Buffer{}}
	log := hclog.New(&hclog.LoggerOptions{Output: s.log, Level: hclog.Info, JSONFormat: true})
	limits := wire.DefaultLimits()
	limits.MaxRun = time.Minute
	template := pool.Template{Image: "python@sha256:1", Limits: limits, DNS: "none"}
	p, err := pool.New(pool.Options{Driver: s.fake, Templates: []pool.Template{template}, Logger: log, Registerer: s.registry})
	if err != nil {
		t.Fatal(err)
	}
	cert, ca := pooltest.Certificate(t)
	s.ca = ca
	o := server.Options{
		Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{cert}},
		Pool: p, Callers: tokens{"good": {Tenant: "agents", Name: "a.1"}, "other": {Tenant: "agents", Name: "b.2"}},
		Template: func(context.Context, pool.Caller, *api.RunBody) (pool.Template, error) { return template, nil },
		Told:     api.ServiceLimits{WaitSeconds: 30, Network: "none", Limits: limits}, Limits: server.DefaultLimits(),
		Drain: 5 * time.Second, Audit: server.NewAudit(s.audit), Logger: log, Registry: s.registry,
	}
	for _, c := range change {
		c(&o)
	}
	if s.Server, err = server.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served, pooled := make(chan error, 1), make(chan error, 1)
	poolCtx, stopPool := context.WithCancel(context.Background())
	go func() { served <- s.Run(ctx) }()
	go func() { pooled <- p.Run(poolCtx) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		err := <-served
		stopPool()
		<-pooled
		return err
	})
	t.Cleanup(func() { _ = s.stop() })
	return s
}

// caller is a client of the service with the token.
func (s *service) caller(t testing.TB, token string) *client.Client {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Address: s.Addr().String(), ServerName: "pool.test", TokenFile: file, CA: s.ca})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// raw sends a request with a plain HTTP client.
func (s *service) raw(t testing.TB, method, path, token, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.ca)
	h := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "pool.test"}, DisableKeepAlives: true}}
	req, err := http.NewRequest(method, "https://"+s.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, b.String()
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}
