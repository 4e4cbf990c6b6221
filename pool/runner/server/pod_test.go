package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/runner/client"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// nobody is the user that pods of these tests have on this machine, when the
// tests are root's.
const nobody = 65534

// builtRunner is the program as it is in the image.
var builtRunner = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "runner-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "runner")
	cmd := exec.Command("go", "build", "-o", path, "github.com/code-sandbox/code-sandbox/cmd/runner")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	// With what stands beside it in a pod.
	if out, err := exec.Command(path, "install", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, os.Chmod(dir, 0o755)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := builtRunner(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// pod is the built runner as process 1 of namespaces of its own, of a user
// without rights.
type pod struct {
	t      testing.TB
	config wire.RunnerConfig
	secret string
	cmd    *exec.Cmd
	log    journal
	ended  chan struct{} // closed when all of it is gone
	err    error         // then: how
}

// journal is what the runner says on standard error, readable at any time.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

func limits() wire.Limits {
	l := wire.DefaultLimits()
	l.MaxRun = 20 * time.Second
	return l
}

func startPod(t testing.TB, change func(*wire.RunnerConfig)) *pod {
	t.Helper()
	return startPodBy(t, (*exec.Cmd).Start, change)
}

// startPodBy starts a pod by a function of the caller's.
func startPodBy(t testing.TB, start func(*exec.Cmd) error, change func(*wire.RunnerConfig)) *pod {
	t.Helper()
	runner, err := builtRunner()
	if err != nil {
		t.Fatalf("cannot build the runner: %v", err)
	}
	p := &pod{t: t, secret: rand.Text(), ended: make(chan struct{})}
	hash := sha256.Sum256([]byte(p.secret))
	p.config = wire.RunnerConfig{
		SecretSHA256: hex.EncodeToString(hash[:]), Limits: limits(), Life: time.Minute, Python: "/usr/bin/python3",
		Address: freeAddress(t), Work: folder(t), Temp: folder(t),
	}
	if change != nil {
		change(&p.config)
	}
	text, err := json.Marshal(p.config)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command("unshare", "--user", "--map-user=1000", "--map-group=1000", "--mount", "--pid", "--fork",
		"--kill-child", "--mount-proc", runner)
	p.cmd.Dir = "/"
	p.cmd.Env = []string{"PATH=/usr/bin:/bin", wire.RunnerEnv + "=" + string(text), "PASSWORD=of-the-pod"}
	p.cmd.Stderr = &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	if err := start(p.cmd); err != nil {
		t.Fatal(err)
	}
	go func() { p.err = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() && p.log.String() != "" {
			t.Logf("the runner said: %s", p.log.String())
		}
	})
	return p
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// folder is an empty folder of the pod's user.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "runner-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// connect waits until the runner answers, and is fresh.
func (p *pod) connect() *client.Conn {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	conn, err := client.Connect(ctx, p.config.Address, p.secret)
	if err != nil {
		p.t.Fatalf("%v; the runner said: %s", err, p.log.String())
	}
	p.t.Cleanup(func() { conn.Close() })
	fresh, err := conn.Fresh(ctx, wire.Proof{})
	if err != nil || !fresh.Fresh || !strings.HasPrefix(fresh.Python, "3.") {
		p.t.Fatalf("the runner is not fresh: %+v, %v; it said: %s", fresh, err, p.log.String())
	}
	return conn
}

// run runs code in a pod of its own.
func run(t testing.TB, code string) *wire.Result {
	t.Helper()
	return runRequest(t, &wire.Request{Code: code}, nil)
}

func runRequest(t testing.TB, req *wire.Request, sink wire.Sink) *wire.Result {
	t.Helper()
	p := startPod(t, nil)
	res, err := p.connect().Run(t.Context(), req, sink)
	if err != nil {
		t.Fatalf("cannot run: %v", err)
	}
	p.waitGone(5 * time.Second)
	if p.err != nil {
		t.Errorf("the runner ended with %v", p.err)
	}
	return res
}

func (p *pod) waitGone(limit time.Duration) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.t.Fatalf("the runner is still there after %s", limit)
	}
}
