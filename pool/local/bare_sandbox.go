package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// bareSandbox is one interpreter, waiting for its run.
type bareSandbox struct {
	id     string
	driver *Bare
	limits wire.Limits
	folder string
	used   atomic.Bool

	cmd            *exec.Cmd
	exited         chan syscall.WaitStatus
	reaped         chan struct{} // closed when the interpreter has ended and its pid is free
	control        *net.UnixConn
	stdout, stderr *os.File
	workDir        *os.File
	cgroup         *cgroup // nil where none can be made

	running   sync.Mutex // held by Run: descriptors are closed only after it
	destroyed sync.Once
	gone      chan struct{} // closed when destroyed
}

var _ pool.Sandbox = (*bareSandbox)(nil)

func (s *bareSandbox) ID() string { return s.id }

func (s *bareSandbox) work() string { return filepath.Join(s.folder, "work") }
func (s *bareSandbox) temp() string { return filepath.Join(s.folder, "tmp") }

// Run implements pool.Sandbox.
func (s *bareSandbox) Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	if !s.used.CompareAndSwap(false, true) {
		return nil, api.Errorf(api.Internal, "%w", pool.ErrUsed)
	}
	s.running.Lock()
	defer s.running.Unlock()
	oomKills := func() bool { return false }
	if s.cgroup != nil {
		oomKills = s.driver.watchdog.add(&watched{cgroup: s.cgroup, kill: s.kill})
	}
	process := &runner.Process{
		Control: s.control, Stdout: s.stdout, Stderr: s.stderr, WorkDir: s.workDir, Exited: s.exited,
		// It fails only where the interpreter has ended, which Exited tells.
		Interrupt: func() { _ = s.cmd.Process.Signal(sigRTMax) },
		Kill:      s.kill, Gone: s.end, OOMKills: oomKills,
	}
	res, err := process.Execute(ctx, req, s.limits, sink)
	if err != nil {
		return nil, err
	}
	res.Isolation = BareIsolation
	if len(res.Denied) > 0 { // by this machine, not by a sandbox: the hint does not hold
		res.Denied = nil
		res.Reason = firstSentence(res.Reason)
	}
	return res, nil
}

func firstSentence(s string) string {
	if first, _, ok := strings.Cut(s, ". "); ok {
		return first + "."
	}
	return s
}

// reap waits for the interpreter's end. While it has not been waited for, its
// pid stands for its session and nothing else: what it left running is killed
// until then.
func (s *bareSandbox) reap() {
	for unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	s.tree().end(time.Second)
	_ = s.cmd.Wait() // how it ended is told by its state
	close(s.reaped)
	status, _ := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	s.exited <- status
	if !s.used.Load() {
		s.driver.lost(s.id)
	}
}

func (s *bareSandbox) tree() *tree {
	return &tree{mark: s.folder, cgroup: s.cgroup, leader: func() int {
		select {
		case <-s.reaped:
			return 0
		default:
			return s.cmd.Process.Pid
		}
	}}
}

func (s *bareSandbox) kill() { s.tree().kill() }

// end kills until nothing is left; false when it takes longer than limit.
func (s *bareSandbox) end(limit time.Duration) bool {
	began := time.Now()
	if !s.tree().end(limit) {
		return false
	}
	select {
	case <-s.reaped:
	case <-time.After(limit - time.Since(began)):
		return false
	}
	return s.tree().end(limit - time.Since(began))
}

// destroy ends everything and gives it back.
func (s *bareSandbox) destroy() error {
	var err error
	s.destroyed.Do(func() {
		s.used.Store(true)
		if !s.end(destroyBound) {
			err = fmt.Errorf("the processes of sandbox %q are still there %s after a kill", s.id, destroyBound)
		}
		s.running.Lock() // the run ends at once: its process has
		err = errors.Join(err, s.abandon())
		s.running.Unlock()
		close(s.gone)
	})
	<-s.gone
	return err
}

// abandon gives back what a sandbox without processes holds.
func (s *bareSandbox) abandon() error {
	s.control.Close()
	s.stdout.Close()
	s.stderr.Close()
	s.workDir.Close() // nil is fine
	err := removeFolder(s.folder)
	if s.cgroup != nil {
		err = errors.Join(err, s.cgroup.remove())
	}
	return err
}
