package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/cmd/program"
	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/api/client"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/server"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/sidecar"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

type anybody struct{}

func (anybody) Resolve(_ context.Context, token string, _ netip.Addr) (pool.Caller, error) {
	if token != "the token" {
		return pool.Caller{}, api.Errorf(api.Unauthenticated, "no")
	}
	return pool.Caller{Tenant: "agents", Name: "a"}, nil
}

// startPool serves fake sandboxes on the address until the returned function.
func startPool(t *testing.T, address string, cert tls.Certificate) (stop func()) {
	t.Helper()
	limits := wire.DefaultLimits()
	limits.MaxRun = 20 * time.Second
	template := pool.Template{Limits: limits}
	fake := &pooltest.Fake{Run: func(ctx context.Context, s *pooltest.FakeSandbox, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		if len(req.Call) > 0 {
			return called(req), nil
		}
		if req.Code == "hang" {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return &wire.Result{Outcome: wire.OK, Stdout: req.Code}, nil
	}}
	p, err := pool.New(pool.Options{Driver: fake, Templates: []pool.Template{template}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{
		Listen: address, AdminListen: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Pool: p, Callers: anybody{},
		Template: func(context.Context, pool.Caller, *api.RunBody) (pool.Template, error) { return template, nil },
		Told:     api.ServiceLimits{Isolation: "pod", MemoryBy: "cgroup", CPUBy: "cgroup", Network: "none", Limits: limits}, Limits: server.DefaultLimits(), Drain: 100 * time.Millisecond,
		Logger: hclog.NewNullLogger(), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- p.Run(ctx) }()
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// startSidecar starts a sidecar that waits a second for its pool.
func startSidecar(t *testing.T, address, token string, ca []byte, more ...string) (s *sidecar.Server, pool *client.Client, stop func()) {
	t.Helper()
	o, err := parse(append([]string{"--pool", address, "--pool-name", "pool.test", "--pool-ca", string(ca), "--token-file", token,
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--wait", "1s", "--log-level", "error"}, more...))
	if err != nil {
		t.Fatal(err)
	}
	if s, pool, err = build(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go pool.Keep(ctx)
	go func() { done <- s.Run(ctx) }()
	return s, pool, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// The whole way: sidecar, client, TLS, server, pool, and a pool that comes
// late, goes, and comes back.
func TestSidecar(t *testing.T) {
	cert, ca := pooltest.Certificate(t)
	address, token := freePort(t), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the token"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, pool, stopSidecar := startSidecar(t, address, token, ca)
	url, admin := "http://"+s.Addr().String(), "http://"+s.AdminAddr().String()

	// At t=0 there is no pool: alive, not ready, and a run waits and is refused.
	if status, _ := get(t, admin+"/readyz"); status != 503 {
		t.Error(status)
	}
	if status, _ := get(t, admin+"/healthz"); status != 200 {
		t.Error(status)
	}
	began := time.Now()
	status, body := post(t, url+"/run_python", `{"code":"x","timeout_seconds":2}`)
	if status != 503 || !strings.Contains(body, `"no_capacity"`) || !strings.Contains(body, `"executed":"no"`) || !strings.Contains(body, `"retryable":true`) {
		t.Error(status, body)
	}
	if took := time.Since(began); took < 300*time.Millisecond || took > 2*time.Second {
		t.Errorf("refused after %v", took)
	}
	// It comes; limits are learnt.
	stop := startPool(t, address, cert)
	if status, body := post(t, url+"/run_python", `{"code":"print(1)"}`); status != 200 || !strings.Contains(body, "print(1)") {
		t.Error(status, body)
	}
	for end := time.Now().Add(5 * time.Second); pool.Told() == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	if status, _ := get(t, admin+"/readyz"); status != 200 {
		t.Error(status)
	}
	if _, body := get(t, url+"/limits"); !strings.Contains(body, `"max_timeout_seconds":20`) || !strings.Contains(body, `"isolation":"pod","memory_by":"cgroup","cpu_by":"cgroup"`) {
		t.Error(body)
	}
	if status, body := post(t, url+"/run_python", `{"code":"x","timeout_seconds":21}`); status != 400 {
		t.Error(status, body)
	}
	// It restarts under a run, which is lost; the next waits for the new one.
	lost := make(chan string, 1)
	go func() {
		status, body := post(t, url+"/run_python", `{"code":"hang"}`)
		if status < 500 {
			body = http.StatusText(status) + body
		}
		lost <- body
	}()
	time.Sleep(200 * time.Millisecond)
	stop()
	if body := <-lost; !strings.Contains(body, `"executed":"maybe"`) {
		t.Error(body)
	}
	defer startPool(t, address, cert)()
	if status, body := post(t, url+"/run_python", `{"code":"again"}`); status != 200 {
		t.Error(status, body)
	}
	stopSidecar()
}

func TestFlags(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		_, err := parse(args)
		if !errors.Is(err, flags.ErrUsage) || !strings.Contains(err.Error(), want) || program.Status("sidecar", err) != 2 {
			t.Errorf("%v: %v", args, err)
		}
	}
	f("--pool must say")
	f("--pool-ca", "--pool", "p:1")
	f("not both", "--pool", "p:1", "--pool-ca", "x", "--pool-ca-file", "y")
	f("--timeout", "--pool", "p:1", "--pool-ca", "x", "--timeout", "0s")
	f("--log-level", "--pool", "p:1", "--pool-ca", "x", "--log-level", "loud")
	f("the mode is", "--pool", "p:1", "--pool-ca", "x", "--tools", "maybe")
	f("an address of this pod alone", "--pool", "p:1", "--pool-ca", "x", "--listen", "0.0.0.0:8900")
	f("an address of this pod alone", "--pool", "p:1", "--pool-ca", "x", "--listen", ":8900")
	f("is not a flag", "--pool", "p:1", "--pool-ca", "x", "extra")
	// As the injector sets them.
	t.Setenv("CODE_SANDBOX_POOL", "pool:8443")
	t.Setenv("CODE_SANDBOX_POOL_CA", "PEM")
	t.Setenv("CODE_SANDBOX_TOKEN_FILE", "/t")
	t.Setenv("CODE_SANDBOX_POD_UID", "u")
	for name, value := range map[string]string{"TOOLS": "audit", "TOOLS_INCLUDE": "a*", "TOOLS_EXCLUDE": "b", "TOOLS_CONTEXT": "inline", "TOOL_ENV_ALLOW": "TZ",
		"TOOL_TIMEOUT": "400", "ALLOW_RESULTS": "Command", "TOOL_GRANT": "a=b.example:443 c=d.example", "REQUIRE_HOOK": "true"} {
		t.Setenv("CODE_SANDBOX_"+name, value)
	}
	o, err := parse(nil)
	want := toolproxy.Policy{Mode: "audit", Include: []string{"a*"}, Exclude: []string{"b"}, Context: "inline", EnvAllow: []string{"TZ"}, AllowResults: []string{"Command"},
		Grants:  []toolproxy.Grant{{Tool: "a", Hosts: []string{"b.example:443"}}, {Tool: "c", Hosts: []string{"d.example:80", "d.example:443"}}},
		Timeout: 400 * time.Second, MaxTimeout: 400 * time.Second}
	if got := o.policy(); !o.requireHook || !reflect.DeepEqual(got, want) {
		t.Errorf("the policy is %+v, not %+v", got, want)
	}
	if err != nil || o.pool != "pool:8443" || o.poolCA != "PEM" || o.tokenFile != "/t" || o.podUID != "u" {
		t.Error(o, err)
	}
	if _, _, err := build(o); err == nil || !strings.Contains(err.Error(), "PEM") {
		t.Error(err)
	}
}
