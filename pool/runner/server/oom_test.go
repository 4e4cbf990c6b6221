package server_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// container starts a command in a memory cgroup of its own, as the runtime of
// containers does.
type container struct {
	dir     string
	unified bool
}

// newContainer says why not where no cgroup can be made.
func newContainer(t *testing.T, memory int64) (*container, error) {
	t.Helper()
	c := &container{dir: "/sys/fs/cgroup/memory"}
	limit := "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(c.dir, limit)); err != nil {
		c, limit = &container{dir: "/sys/fs/cgroup", unified: true}, "memory.max"
	}
	c.dir = filepath.Join(c.dir, fmt.Sprintf("runner-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		for range 100 { // its last process may be about to go
			if os.Remove(c.dir) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("cannot remove %s", c.dir)
	})
	return c, os.WriteFile(filepath.Join(c.dir, limit), []byte(strconv.FormatInt(memory, 10)), 0)
}

// hasKilled says whether the limit has ended a process.
func (c *container) hasKilled() bool {
	name := "memory.oom_control"
	if c.unified {
		name = "memory.events"
	}
	b, err := os.ReadFile(filepath.Join(c.dir, name))
	return err == nil && strings.Contains(string(b), "\noom_kill ") && !strings.Contains(string(b), "\noom_kill 0\n")
}

func (c *container) start(cmd *exec.Cmd) error {
	if c.unified {
		f, err := os.Open(c.dir)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(f.Fd())
		return cmd.Start()
	}
	// A child is born where the thread is that makes it. The thread goes back
	// then: it ends with this goroutine, since it stays locked, but for the
	// process's first one.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		thread := []byte(strconv.Itoa(syscall.Gettid()))
		home, err := memoryCgroup()
		if err == nil {
			err = os.WriteFile(filepath.Join(c.dir, "tasks"), thread, 0)
		}
		if err == nil {
			err = errors.Join(cmd.Start(), os.WriteFile(filepath.Join(home, "tasks"), thread, 0))
		}
		started <- err
	}()
	return <-started
}

// memoryCgroup is the folder of the cgroup that this thread is in.
func memoryCgroup() (string, error) {
	text, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if _, path, ok := strings.Cut(line, ":memory:"); ok {
			return filepath.Join("/sys/fs/cgroup/memory", strings.TrimSpace(path)), nil
		}
	}
	return "", errors.New("this thread is in no memory cgroup")
}

// The memory limit of the container ends the program, and not the runner, who
// tells of it; also when it was a child of the program.
func TestOutOfMemory(t *testing.T) {
	f := func(code string, outcome wire.Outcome, says string) {
		t.Helper()
		c, err := newContainer(t, 128<<20)
		if err != nil {
			t.Logf("nothing to test: no memory cgroup can be made here: %v", err)
			return
		}
		p := startPodBy(t, c.start, func(r *wire.RunnerConfig) { r.Limits.MemoryBytes = 128 << 20 })
		res, err := p.connect().Run(t.Context(), &wire.Request{Code: code}, nil)
		if err != nil {
			t.Fatalf("cannot run: %v", err)
		}
		if res.Outcome != outcome || !strings.Contains(res.Reason, says) {
			t.Errorf("outcome %s (%s), exit %d, stdout %q, stderr %q", res.Outcome, res.Reason, res.ExitCode, res.Stdout, res.Stderr)
		}
		p.waitGone(5 * time.Second)
	}
	// The program itself.
	f("print('a', flush=True)\nx = []\nwhile True: x.append(bytearray(1 << 20))", wire.OutOfMemory, "128 MiB")
	// A child, whose end the program does not mind.
	f("import os\nif os.fork() == 0:\n  x = []\n  while True: x.append(bytearray(1 << 20))\nos.wait()", wire.OutOfMemory, "128 MiB")
	// Killed by something else.
	f("import os\nos.kill(os.getpid(), 9)", wire.Killed, "signal 9")
}
