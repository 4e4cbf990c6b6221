package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the command, built once.
var binary string

// testPython is one that is there wherever the tests of the drivers run.
const testPython = "/usr/bin/python3"

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "code-sandbox-cmd-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "code-sandbox")
		build := exec.Command("go", "build", "-o", binary, ".")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "cannot build the command: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// ended is how a process ended.
type ended struct {
	code           int
	stdout, stderr string
}

// binaryCommand is the binary with no setting from this environment.
func binaryCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CODE_SANDBOX_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}

// call runs the binary to its end.
func call(t *testing.T, stdin string, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := binaryCommand(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); !exited || ctx.Err() != nil {
			t.Fatalf("%q: %v, it said %s", args, err, stderr.String())
		}
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// localService is a "code-sandbox local" of its own.
type localService struct {
	*testing.T
	cmd    *exec.Cmd
	url    string
	ready  string // the line
	stderr *syncBuffer
	done   chan struct{} // closed when it has ended
}

var readyLine = regexp.MustCompile(`^Code Sandbox is ready on (http://\S+) after [0-9.]+ s: Python 3\.[0-9.]+\S*, isolation (\w+), memory held by \w+, processors shared by (cgroup|niceness)\.$`)

// serve starts one and waits until it says that it is ready. It is ended with
// the test at the latest.
func serve(t *testing.T, args ...string) *localService {
	t.Helper()
	return serveWith(t, nil, args...)
}

// serveWith starts one with more in its environment.
func serveWith(t *testing.T, env []string, args ...string) *localService {
	t.Helper()
	args = append([]string{"local", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--python", testPython, "--preload", "none", "--target", "2"}, args...)
	s := &localService{T: t, cmd: binaryCommand(context.Background(), args...), stderr: new(syncBuffer), done: make(chan struct{})}
	s.cmd.Stderr = s.stderr
	s.cmd.Env = append(s.cmd.Env, env...)
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		lines.Scan()
		first <- lines.Text()
		for lines.Scan() { // nothing may block it
		}
		_ = s.cmd.Wait() // how it ended is told by its state
		close(s.done)
	}()
	t.Cleanup(func() {
		s.stop()
		s.waitEnd(30 * time.Second)
	})
	select {
	case s.ready = <-first:
	case <-time.After(30 * time.Second):
		t.Fatalf("the service does not get ready: %s", s.stderr)
	}
	match := readyLine.FindStringSubmatch(s.ready)
	if match == nil {
		t.Fatalf("the ready line is %q; stderr %s", s.ready, s.stderr)
	}
	s.url = match[1]
	return s
}

func (s *localService) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended
}

// waitEnd waits for the service's end and returns its exit code; -1 is a signal.
func (s *localService) waitEnd(limit time.Duration) int {
	s.Helper()
	select {
	case <-s.done:
	case <-time.After(limit):
		_ = s.cmd.Process.Kill()
		<-s.done
		s.Errorf("the service did not end within %s: %s", limit, s.stderr)
	}
	return s.cmd.ProcessState.ExitCode()
}

// get is the body that a path of the API answers.
func (s *localService) get(path string) string {
	s.Helper()
	resp, err := http.Get(s.url + path)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		s.Fatalf("%s answers %s, %v", path, resp.Status, err)
	}
	return b.String()
}

// run runs a program on the service.
func (s *localService) run(stdin string, args ...string) ended {
	s.Helper()
	return call(s.T, stdin, append([]string{"run", "--url", s.url}, args...)...)
}

// syncBuffer is a buffer that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// until waits until what is written has text in it.
func (b *syncBuffer) until(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(b.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is not written: %q", text, b.String())
		}
	}
}
