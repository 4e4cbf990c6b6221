package sidecar

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// fake is a Runner made of a func. A result without an outcome is made ok, so
// that a test need not say what it is not about.
type fake func(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error)

func (f fake) Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	res, err := f(ctx, req, sink)
	if res != nil && res.Outcome == "" {
		res.Outcome = wire.OK
	}
	return res, err
}

// echo answers with what it was given, so that a test sees what arrived.
func echo(_ context.Context, req *wire.Request, _ wire.Sink) (*wire.Result, error) {
	given, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	return &wire.Result{RunID: "run-1", SandboxID: "sandbox-1", Stdout: string(given), StdoutBytes: int64(len(given)),
		Outcome: wire.OK, Reason: "the program ended by itself with exit code 0", Isolation: "none", Warm: true}, nil
}

// forever runs until its context ends.
func forever(ctx context.Context, _ *wire.Request, _ wire.Sink) (*wire.Result, error) {
	<-ctx.Done()
	return nil, api.Errorf(api.SandboxLost, "%w", context.Cause(ctx)).MaybeRan()
}

type testServer struct {
	*Server
	url, admin string
	stop       func() error // ends Run and returns its error, once
}

// start serves r until the test ends.
func start(t testing.TB, r fake, change ...func(*Options)) *testServer {
	t.Helper()
	o := Options{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Runner: r, Limits: DefaultLimits(),
		Logger: hclog.NewNullLogger(), Registry: prometheus.NewRegistry(), Version: "test", Drain: 5 * time.Second}
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	apiServers.Store(s.Addr().String(), true)
	t.Cleanup(func() { apiServers.Delete(s.Addr().String()) })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &testServer{Server: s, url: "http://" + s.Addr().String(), admin: "http://" + s.AdminAddr().String(), stop: stop}
}

// reply is an answer read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) result(t testing.TB) *wire.Result {
	t.Helper()
	var res wire.Result
	if r.status != 200 {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &res); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return &res
}

func (r reply) error(t testing.TB) *api.Error {
	t.Helper()
	var body struct{ Error *api.Error }
	if err := json.Unmarshal([]byte(r.body), &body); err != nil || body.Error == nil {
		t.Fatalf("not an error: %d %s", r.status, r.body)
	}
	if r.status != body.Error.Status() {
		t.Errorf("status %d with code %s", r.status, body.Error.Code)
	}
	return body.Error
}

// client keeps its connections apart from other tests'.
func client(t testing.TB) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// do sends one request; headers are name, value, name, value, ….
func do(t testing.TB, method, url string, body io.Reader, headers ...string) reply {
	t.Helper()
	r, err := try(client(t), method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// try is do for a goroutine of a test.
func try(c *http.Client, method, url string, body io.Reader, headers ...string) (reply, error) {
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil {
		err = keeps(req, res, b)
	}
	return reply{res.StatusCode, res.Header, string(b)}, err
}

// post runs JSON.
func post(t testing.TB, s *testServer, body string, headers ...string) reply {
	t.Helper()
	return do(t, "POST", s.url+"/run_python", strings.NewReader(body), append([]string{"Content-Type", "application/json"}, headers...)...)
}

type fhCtx = fasthttp.RequestCtx

func newPost(ctx context.Context, url, body string, headers ...string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/run_python", strings.NewReader(body))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

// eventually waits for what happens in another goroutine.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// scrape reads the metrics as a scraper does.
func scrape(t testing.TB, s *testServer) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(do(t, "GET", s.admin+"/metrics", nil).body) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			all[name] = value
		}
	}
	return all
}
