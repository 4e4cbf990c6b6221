package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/runner/python"
)

// bareMark is the variable by which a sandbox's processes are known: its value
// is the sandbox's folder.
const bareMark = "CODE_SANDBOX_FOLDER"

// bareProgram is the bootstrap as a file in memory. Interpreters open it through
// this process's descriptor, and inherit none.
func bareProgram() (*os.File, error) { return memoryFile("bootstrap", python.Bootstrap) }

// keepInherited keeps to this process the descriptors that it was started with,
// by a shell for instance. All that Go opens is kept anyway.
func keepInherited() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("cannot list the open descriptors: %w", err)
	}
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// spawn starts one interpreter and waits until it is ready.
func (d *Bare) spawn(ctx context.Context, t pool.Template) (*bareSandbox, error) {
	ends, err := newEnds()
	if err != nil {
		return nil, err
	}
	s := &bareSandbox{
		id: "sb-" + strings.ToLower(rand.Text()[:20]), driver: d, limits: t.Limits,
		control: ends.control, stdout: ends.stdout, stderr: ends.stderr,
		exited: make(chan syscall.WaitStatus, 1), reaped: make(chan struct{}), gone: make(chan struct{}),
	}
	s.folder = filepath.Join(d.folder.path, s.id)
	theirs := ends.theirFiles()
	if err = s.prepare(); err == nil {
		err = d.start(s, theirs, t)
	}
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	go s.reap()
	if err = s.bound(); err == nil {
		err = s.await(ctx)
	}
	if err == nil {
		err = s.boundMemory()
	}
	if err != nil {
		return nil, errors.Join(err, s.destroy())
	}
	return s, nil
}

// prepare makes the sandbox's folder and cgroup.
func (s *bareSandbox) prepare() error {
	for _, dir := range []string{s.folder, s.work(), s.temp()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("cannot make a folder for a sandbox: %w", err)
		}
	}
	var err error
	if s.workDir, err = os.Open(s.work()); err != nil {
		return fmt.Errorf("cannot open a sandbox's folder: %w", err)
	}
	if s.driver.cgroups != nil {
		s.cgroup, err = s.driver.cgroups.take()
	}
	return err
}

// start executes the interpreter, in a session of its own.
func (d *Bare) start(s *bareSandbox, theirs [3]*os.File, t pool.Template) error {
	argument, err := json.Marshal(map[string]any{
		"control": 3, "sys_path": d.opts.Python.Path, "preload": append([]string{}, t.Preload...), "work": s.work(),
	})
	if err != nil {
		return err
	}
	program := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), d.program.Fd())
	cmd := exec.Command(d.opts.Python.Executable, "-I", "-S", "-B", program, string(argument))
	cmd.Dir = s.work()
	cmd.Env = append(zygoteEnv(d.opts.Python), "HOME="+s.temp(), "TMPDIR="+s.temp(), "MPLCONFIGDIR="+s.temp(), bareMark+"="+s.folder)
	if s.cgroup == nil {
		cmd.Env = append(cmd.Env, "MALLOC_ARENA_MAX=2") // each arena takes 64 MiB of address space, which is what is bounded
	}
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = theirs[:1], theirs[1], theirs[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	s.cmd = cmd
	done := make(chan error, 1)
	select {
	case d.starts <- func() { done <- cmd.Start() }:
		err = <-done
	case <-d.stopped:
		err = errClosed
	}
	if err != nil {
		return fmt.Errorf("cannot start the interpreter: %w", err)
	}
	return nil
}

// theirFiles makes files of the sandbox's ends: control, stdout, stderr. They
// are closed as files from then on.
func (e *ends) theirFiles() [3]*os.File {
	return [3]*os.File{
		os.NewFile(uintptr(e.theirs[0]), "control"), os.NewFile(uintptr(e.theirs[1]), "stdout"), os.NewFile(uintptr(e.theirs[2]), "stderr"),
	}
}

// bound sets what can be bounded before the interpreter has done anything.
func (s *bareSandbox) bound() error {
	pid := s.cmd.Process.Pid
	if s.cgroup != nil {
		for _, join := range s.cgroup.joins() {
			if _, err := join.WriteString(strconv.Itoa(pid)); err != nil {
				return fmt.Errorf("cannot put a sandbox into its cgroup: %w", err)
			}
		}
	}
	for resource, value := range map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: uint64(s.limits.OpenFiles), unix.RLIMIT_FSIZE: uint64(s.limits.DiskBytes),
	} {
		if err := setLimit(pid, resource, value); err != nil {
			return err
		}
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, pid, sandboxNice) // fails only where it has ended, which await will tell
	return nil
}

// boundMemory bounds, without a cgroup, the address space of each process: to
// what the interpreter has mapped now and the memory limit on top.
func (s *bareSandbox) boundMemory() error {
	if s.cgroup != nil {
		return nil
	}
	pid := s.cmd.Process.Pid
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Errorf("cannot bound a sandbox's memory: %w", err)
	}
	return setLimit(pid, unix.RLIMIT_AS, uint64(field(status, "VmSize:")<<10+s.limits.MemoryBytes))
}

// setLimit sets a resource limit of another process, as far as its hard limit lets.
func setLimit(pid, resource int, value uint64) error {
	var now unix.Rlimit
	err := unix.Prlimit(pid, resource, nil, &now)
	if err == nil {
		value = min(value, now.Max)
		err = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: value, Max: value}, nil)
	}
	if err != nil {
		return fmt.Errorf("cannot bound a sandbox: %w", err)
	}
	return nil
}

// await waits for the interpreter's word that it is ready.
func (s *bareSandbox) await(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	word := make([]byte, 600)
	n, err := s.control.Read(word)
	if e := unimportable(word[:max(n, 0)]); e != nil {
		return e
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("the interpreter did not get ready: %w; it said: %s", err, s.said())
	}
	stop()
	return s.control.SetReadDeadline(time.Time{})
}

// said is the last line of what the interpreter wrote before it was ready.
func (s *bareSandbox) said() string {
	s.stderr.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	b := make([]byte, 64<<10) // what a pipe holds
	n, _ := s.stderr.Read(b)
	lines := bytes.Split(bytes.TrimSpace(b[:n]), []byte("\n"))
	if last := lines[len(lines)-1]; len(last) > 0 {
		return string(last)
	}
	return "nothing"
}
