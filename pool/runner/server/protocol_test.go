package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/client"
	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// post speaks to the runner as anybody may.
func (p *pod) post(method, path, secret, body string) (int, string) {
	p.t.Helper()
	http1 := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	req, err := http.NewRequest(method, "https://"+p.config.Address+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set(protocol.NonceHeader, "n")
	res, err := http1.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// What is refused uses nothing up, and what has served is used up for ever.
func TestRefusals(t *testing.T) {
	p := startPod(t, nil)
	conn := p.connect()
	f := func(method, path, secret, body string, want int) {
		t.Helper()
		if got, said := p.post(method, path, secret, body); got != want || !strings.Contains(said, `"error"`) && want != http.StatusMethodNotAllowed {
			t.Errorf("%s %s answered %d %s", method, path, got, said)
		}
	}
	// Without the secret, with another, with its hash.
	f("POST", "/v1/run", "", `{"code":"print(1)"}`, 401)
	f("POST", "/v1/run", "other", `{"code":"print(1)"}`, 401)
	f("POST", "/v1/run", p.config.SecretSHA256, `{"code":"print(1)"}`, 401)
	f("GET", "/", "", ``, 401)
	// What is no request of a run.
	f("POST", "/v1/run", p.secret, `{"code":`, 400)
	f("POST", "/v1/run", p.secret, `{"code":1}`, 400)
	f("POST", "/v1/run", p.secret, `{"code":"","timeout_seconds":-1}`, 400)
	f("POST", "/v1/run", p.secret, `{"code":"","timeout_seconds":21}`, 400)
	f("POST", "/v1/run", p.secret, `{"call":{}}`, 400)
	f("POST", "/v1/run", p.secret, `{"code":`+strings.Repeat("[", 1000), 400)
	f("POST", "/v1/run", p.secret, `{"code":"`+strings.Repeat("x", 41<<20), 413)
	f("POST", "/v1/fresh", p.secret, `{"canaries":["localhost:1"]}`, 400)
	f("POST", "/v1/fresh", p.secret, `{"within_ms":1000000}`, 400)
	f("POST", "/", p.secret, ``, 404)
	// The run itself, and while it is under way, all that comes after it.
	started, second := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(second)
		<-started
		f("POST", "/v1/run", p.secret, `{"code":"print(1)"}`, 410)
		f("POST", "/v1/fresh", p.secret, `{}`, 410)
		f("POST", "/v1/run", "other", `{"code":"print(1)"}`, 401)
	}()
	res, err := conn.Run(t.Context(), &wire.Request{Code: "print('x', flush=True)\nimport time; time.sleep(1); print('y')"}, func(wire.Stream, string) {
		select {
		case <-started:
		default:
			close(started)
		}
	})
	if err != nil || res.Stdout != "x\ny\n" {
		t.Errorf("%+v, %v", res, err)
	}
	<-second
	p.waitGone(2 * time.Second)
	if p.err != nil {
		t.Errorf("the runner ended with %v", p.err)
	}
	// And then for ever.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := client.Connect(ctx, p.config.Address, p.secret); err == nil {
		t.Error("it still answers")
	}
}

// The pool hangs up: the run ends, and the runner with it.
func TestHangUp(t *testing.T) {
	p := startPod(t, nil)
	conn := p.connect()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := conn.Run(ctx, &wire.Request{Code: "print(1, flush=True)\nwhile True: pass"}, func(wire.Stream, string) { cancel() })
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.SandboxLost || e.Executed != api.Maybe {
		t.Errorf("the error is %v", err)
	}
	p.waitGone(2 * time.Second)
}

// The pool takes none of the output: the run ends at its deadline all the same.
func TestCallerTakesNothing(t *testing.T) {
	p := startPod(t, nil)
	p.connect()
	raw, err := tls.Dial("tcp", p.config.Address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	body := `{"code":"while True: print('x' * 100000)", "timeout_seconds": 3}`
	fmt.Fprintf(raw, "POST /v1/run HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer %s\r\nX-Nonce: n\r\nContent-Length: %d\r\n\r\n%s", p.secret, len(body), body)
	p.waitGone(25 * time.Second)
}

// Everything that ends a runner that waits: a signal from outside, its life, the
// loss of its interpreter or its pool. During a run, a signal does not.
func TestEndOfAnIdleRunner(t *testing.T) {
	// Its life, which tells the pool by the end of the connection.
	p := startPod(t, func(c *wire.RunnerConfig) { c.Life = time.Second })
	conn := p.connect()
	p.waitGone(4 * time.Second)
	<-conn.Broken()
	if p.err == nil || !strings.Contains(p.log.String(), "no run came") {
		t.Errorf("it ended with %v and said %q", p.err, p.log.String())
	}
	// SIGTERM, as the kubelet sends it.
	p = startPod(t, nil)
	conn = p.connect()
	if err := syscall.Kill(p.child(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.waitGone(2 * time.Second)
	<-conn.Broken()
	_, err := conn.Run(t.Context(), &wire.Request{Code: "print(1)"}, nil)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.SandboxLost || e.Executed != api.No {
		t.Errorf("a run after the end: %v", err)
	}
	// The pool hangs up: nobody else will ever use this sandbox.
	p = startPod(t, nil)
	p.connect().Close()
	p.waitGone(2 * time.Second)
	if p.err != nil {
		t.Errorf("it ended with %v and said %q", p.err, p.log.String())
	}
	// Somebody else who hangs up ends nothing.
	p = startPod(t, nil)
	conn = p.connect()
	if status, _ := p.post("POST", "/v1/fresh", "wrong", "{}"); status != 401 {
		t.Errorf("the status is %d", status)
	}
	if res, err := conn.Run(t.Context(), &wire.Request{Code: "print(1)"}, nil); err != nil || res.Stdout != "1\n" {
		t.Errorf("a run after a stranger's visit: %+v, %v", res, err)
	}
	// The interpreter's death.
	p = startPod(t, nil)
	conn = p.connect()
	if err := syscall.Kill(childOf(t, p.child()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.waitGone(2 * time.Second)
	<-conn.Broken()
}

// child is the runner, as this machine sees it: unshare is its parent.
func (p *pod) child() int { return childOf(p.t, p.cmd.Process.Pid) }

func childOf(t testing.TB, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks(pid) { // the thread that forked may be any
		more, _ := os.ReadFile(filepath.Join(task, "children"))
		b = append(b, more...)
	}
	var child int
	if _, err := fmt.Sscan(string(bytes.TrimSpace(b)), &child); err != nil {
		t.Fatalf("process %d has no child: %v", pid, err)
	}
	return child
}

func tasks(pid int) []string {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	return all
}

// The runner is killed in the middle of a run: what it was is not known, and
// that is what the caller hears.
func TestRunnerKilled(t *testing.T) {
	p := startPod(t, nil)
	conn := p.connect()
	_, err := conn.Run(t.Context(), &wire.Request{Code: "print(1, flush=True)\nwhile True: pass"}, func(wire.Stream, string) {
		p.cmd.Process.Kill()
	})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.SandboxLost || e.Executed != api.Maybe {
		t.Errorf("the error is %v", err)
	}
	p.waitGone(2 * time.Second)
}

// A folder that is not empty is that of a run before: nothing is served.
func TestUsedFolder(t *testing.T) {
	p := startPod(t, func(c *wire.RunnerConfig) {
		if err := os.WriteFile(filepath.Join(c.Work, "main.py"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	})
	p.waitGone(3 * time.Second)
	if p.err == nil || !strings.Contains(p.log.String(), "is not empty") {
		t.Errorf("it ended with %v and said %q", p.err, p.log.String())
	}
}

// What the image has is imported ahead, and the rest is named.
func TestPreload(t *testing.T) {
	p := startPod(t, func(c *wire.RunnerConfig) { c.Preload = []string{"decimal", "no_such_module"} })
	conn := p.connect()
	fresh, err := conn.Fresh(t.Context(), wire.Proof{})
	if err != nil || len(fresh.Preloaded) != 1 || fresh.Preloaded[0] != "decimal" {
		t.Errorf("%+v, %v", fresh, err)
	}
	res, err := conn.Run(t.Context(), &wire.Request{Code: "import sys; print('decimal' in sys.modules)"}, nil)
	if err != nil || res.Stdout != "True\n" {
		t.Errorf("%+v, %v", res, err)
	}
	if !strings.Contains(p.log.String(), `cannot import "no_such_module" ahead: ModuleNotFoundError`) {
		t.Errorf("it said %q", p.log.String())
	}
}
