package escape

import (
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
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/runner/client"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// pods is the target on this machine whose sandboxes are pods as far as the
// runner makes them: it is process 1 of namespaces of its own, without the rest
// of what a cluster puts around it.
type pods struct {
	runner  string
	without []string
}

// newPods builds the runner as it is in the image.
func newPods(t *testing.T) pods {
	t.Helper()
	dir := openFolder(t)
	p := pods{runner: filepath.Join(dir, "runner")}
	build := exec.Command("go", "build", "-o", p.runner, "github.com/code-sandbox/code-sandbox/cmd/runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the runner: %v: %s", err, out)
	}
	return p
}

// openFolder is a folder that every user may write to.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "escape-pod-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (p pods) Run(ctx context.Context, req *wire.Request) (*wire.Result, error) {
	dir, err := os.MkdirTemp("", "escape-pod-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	secret := rand.Text()
	config, err := p.config(dir, secret)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "unshare", "--user", "--map-user=1000", "--map-group=1000", "--mount", "--pid", "--ipc", "--fork",
		"--kill-child", "--mount-proc", p.runner)
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{"PATH=/usr/bin:/bin", wire.RunnerEnv + "=" + string(text)}, os.Stderr
	if !unprivileged() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = cmd.Process.Kill() // fails where it has ended, as it does after a run
		_ = cmd.Wait()
	}()
	return p.ask(ctx, config.Address, secret, req)
}

// config has two folders below dir, and a port that was free a moment ago.
func (p pods) config(dir, secret string) (wire.RunnerConfig, error) {
	hash := sha256.Sum256([]byte(secret))
	c := wire.RunnerConfig{
		SecretSHA256: hex.EncodeToString(hash[:]), Limits: wire.DefaultLimits(), Life: time.Minute, Python: "/usr/bin/python3",
		Work: filepath.Join(dir, "work"), Temp: filepath.Join(dir, "temp"), Without: p.without,
	}
	for _, folder := range []string{c.Work, c.Temp} {
		if err := os.Mkdir(folder, 0o777); err != nil {
			return c, err
		}
	}
	for _, folder := range []string{dir, c.Work, c.Temp} {
		if err := os.Chmod(folder, 0o777); err != nil {
			return c, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return c, err
	}
	c.Address = l.Addr().String()
	return c, l.Close()
}

func (p pods) ask(ctx context.Context, address, secret string, req *wire.Request) (*wire.Result, error) {
	conn, err := client.Connect(ctx, address, secret)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	fresh, err := conn.Fresh(ctx, wire.Proof{})
	if err != nil {
		return nil, err
	}
	if !fresh.Fresh {
		return nil, fmt.Errorf("the runner is not fresh: %s", fresh.Reason)
	}
	inPod(req, "pod")
	return conn.Run(ctx, req, nil)
}

// inPod tells a program what it is in.
func inPod(req *wire.Request, isolation string) {
	if req.Env == nil {
		req.Env = map[string]string{}
	}
	req.Env["POD"] = isolation
}

// byRunner says whether it is the runner of a pod that stops a row, and nothing
// else does.
func byRunner(r row) bool {
	return len(r.without) > 0 && !slices.ContainsFunc(r.without, func(layer string) bool { return layer != "seccomp" && layer != "rlimits" })
}

// What the filter of system calls and the limits stop on one machine, the
// runner's stop in a pod with a user namespace; without them the same programs
// get through.
func TestHostileProgramsInPods(t *testing.T) {
	t.Parallel()
	with := newPods(t)
	found := 0
	for _, r := range table() {
		if !byRunner(r) {
			continue
		}
		found++
		t.Run(r.name, func(t *testing.T) {
			if wrong := r.try(t, with); wrong != "" {
				t.Errorf("the runner must stop it: %s", wrong)
			}
			without := pods{runner: with.runner, without: r.without}
			if wrong := r.try(t, without); wrong == "" {
				t.Errorf("it is stopped without the runner's %s as well: the row does not test that layer", r.without)
			} else {
				t.Logf("without %s: %.300s", r.without, wrong)
			}
		})
	}
	if found < 16 {
		t.Errorf("only %d rows are the runner's", found)
	}
}
