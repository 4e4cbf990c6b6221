package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
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

// sandbox is one sandbox process tree, waiting for its run.
type sandbox struct {
	id     string
	driver *Driver
	limits wire.Limits
	used   atomic.Bool

	copy     *wire.Copy  // nil for one that runs any program
	nonce    string      // of a copy: what its frames must carry
	oomKills func() bool // of a copy, whose memory is watched from the start

	initFD, mainFD int                     // pidfds; killing init ends the whole tree
	exited         chan syscall.WaitStatus // closed without a value when nobody knows it
	control        *net.UnixConn
	stdout, stderr *os.File
	workDir        *os.File
	dns            net.PacketConn // nil without a relay
	egress         net.Listener   // nil where nothing may be reached
	cgroup         *cgroup        // nil where memory is watched instead

	running   sync.Mutex // held by Run: descriptors are closed only after it
	destroyed sync.Once
	gone      chan struct{} // closed when destroyed
}

var _ pool.Sandbox = (*sandbox)(nil)

func (s *sandbox) ID() string { return s.id }

// Run implements pool.Sandbox.
func (s *sandbox) Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	if !s.used.CompareAndSwap(false, true) {
		return nil, api.Errorf(api.Internal, "%w", pool.ErrUsed)
	}
	s.running.Lock()
	defer s.running.Unlock()
	if s.dns != nil {
		go s.driver.relay.serve(s.dns)
	}
	oomKills := s.oomKills
	if oomKills == nil {
		var err error
		if oomKills, err = s.watchMemory(); err != nil {
			return nil, api.Errorf(api.SandboxLost, "%w", err)
		}
	}
	process := &runner.Process{
		Control: s.control, Stdout: s.stdout, Stderr: s.stderr, WorkDir: s.workDir, Exited: s.exited,
		Interrupt: func() { unix.PidfdSendSignal(s.mainFD, sigRTMax, nil, 0) },
		Kill:      s.kill, Gone: s.waitGone, OOMKills: oomKills,
	}
	closeEgress := s.serveEgress()
	res, err := s.execute(ctx, process, req, sink)
	denied := closeEgress()
	if err != nil {
		return nil, err
	}
	res.EgressDenied = denied
	res.Isolation = Namespaces
	return res, nil
}

// serveEgress answers as a proxy until the returned function is called, which
// tells the hosts that were denied.
func (s *sandbox) serveEgress() func() []string {
	if s.egress == nil {
		return func() []string { return nil }
	}
	return s.driver.opts.Egress.Serve(s.egress, s.id, s.copy.Egress).Close
}

func (s *sandbox) execute(ctx context.Context, p *runner.Process, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	switch {
	case s.copy != nil && req.Call != nil:
		return p.Call(ctx, req, s.nonce, s.limits, sink)
	case s.copy == nil && req.Call == nil:
		return p.Execute(ctx, req, s.limits, sink)
	}
	return nil, api.Errorf(api.BadRequest, "a copy serves tool calls only, and another sandbox none")
}

// ended takes note of the interpreter's end. Without a run, nothing should have
// ended it.
func (s *sandbox) ended(e exit) {
	if e.known {
		s.exited <- e.status
	} else {
		close(s.exited)
	}
	if !s.used.Load() {
		go s.driver.lost(s.id)
	}
}

// sigRTMax is the bootstrap's INTERRUPT.
const sigRTMax = unix.Signal(64)

func (s *sandbox) watchMemory() (func() bool, error) {
	if s.driver.without("memory") {
		return func() bool { return false }, nil
	}
	entry := &watched{cgroup: s.cgroup, files: s.workDir, kill: s.kill}
	if s.cgroup == nil {
		pid, err := hostPID(s.mainFD)
		if err != nil {
			return nil, err
		}
		if entry.namespace, err = pidNamespace(pid); err != nil {
			return nil, err
		}
	}
	return s.driver.watchdog.add(entry), nil
}

// hostPID is the pid, as this process sees it, of the process behind a pidfd.
func hostPID(pidfd int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return 0, fmt.Errorf("cannot find a sandbox's process: %w", err)
	}
	pid := int(field(b, "Pid:"))
	if pid <= 0 {
		return 0, errors.New("the sandbox's process has ended")
	}
	return pid, nil
}

// kill ends the tree: when process 1 of a pid namespace ends, all of it does.
// The interpreter, which is not that process's child, is told beside it.
func (s *sandbox) kill() {
	unix.PidfdSendSignal(s.initFD, unix.SIGKILL, nil, 0)
	unix.PidfdSendSignal(s.mainFD, unix.SIGKILL, nil, 0)
}

// waitGone waits until process 1, and so every process, is gone.
func (s *sandbox) waitGone(limit time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(s.initFD), Events: unix.POLLIN}}
	for deadline := time.Now().Add(limit); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		n, err := unix.Poll(poll, int(left.Milliseconds())+1)
		if err != unix.EINTR {
			return err == nil && n == 1
		}
	}
}

// destroy kills the tree, waits for it, and gives everything back.
func (s *sandbox) destroy() error {
	var err error
	s.destroyed.Do(func() {
		s.kill()
		gone := s.waitGone(destroyBound)
		if !gone {
			err = fmt.Errorf("the processes of sandbox %q are still there %s after a kill", s.id, destroyBound)
		}
		s.used.Store(true)
		s.running.Lock() // the run ends at once: its process has
		s.close()
		s.running.Unlock()
		switch {
		case s.cgroup == nil:
		case gone:
			err = errors.Join(err, s.driver.cgroups.giveBack(s.cgroup))
		default:
			err = errors.Join(err, s.cgroup.remove())
		}
		close(s.gone)
	})
	<-s.gone
	return err
}

func (s *sandbox) close() {
	s.control.Close()
	s.stdout.Close()
	s.stderr.Close()
	if s.workDir != nil {
		s.workDir.Close()
	}
	if s.dns != nil {
		s.dns.Close()
	}
	if s.egress != nil {
		_ = s.egress.Close() // the run has closed it
	}
	unix.Close(s.initFD)
	unix.Close(s.mainFD)
}
