package local

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// zygoteConfig is what zygote/__main__.py is told, once.
type zygoteConfig struct {
	Preload      []string    `json:"preload"`
	SysPath      []string    `json:"sys_path"`
	Paths        []string    `json:"paths"`
	Python       string      `json:"python"`
	Limits       wire.Limits `json:"limits"`
	DNS          string      `json:"dns"`
	Unprivileged bool        `json:"unprivileged"`
	// HostID is the first user and group id of programs, as the machine sees
	// them: each of HostIDs sandboxes in a row has its own, since the kernel
	// counts some things by user.
	HostID  int `json:"host_id"`
	HostIDs int `json:"host_ids"`

	Nice         int      `json:"nice"`
	AddressSpace int64    `json:"address_space"` // bytes a process; 0 where a cgroup bounds memory
	Seccomp      string   `json:"seccomp"`
	Init         string   `json:"init"`
	Fresh        bool     `json:"fresh_interpreter"`
	Start        string   `json:"start"` // argument of a fresh interpreter
	Without      []string `json:"without"`

	// EgressPort is where the proxy listens inside of copies that may reach hosts;
	// 0 in others.
	EgressPort int `json:"egress_port"`

	// Of copies: what to execute once the sandbox is closed in, and what of the
	// paths is hidden or named by a link.
	Exec  *execution        `json:"exec"`
	Masks []string          `json:"masks"`
	Links map[string]string `json:"links"`
	// Folders are those of Paths that are shown by overlays, and Never are names
	// that are hidden there though nothing may have them yet.
	Folders []string `json:"folders"`
	Never   []string `json:"never"`
}

// execution is a program that takes the place of the zygote's fork.
type execution struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env"`
	// TwoEnds gives the control socket a second descriptor, 4, so that the
	// program can close one for reading and keep one for writing.
	TwoEnds bool `json:"two_ends"`
}

// zygote is a started zygote process. Its one reader goroutine ends with it.
type zygote struct {
	channel *os.File // SOCK_SEQPACKET
	proc    bool     // its sandboxes have a /proc
	live    []string // folders that cannot be shown by an overlay, with the reason
	born    time.Time
	kill    func() error
	exited  chan struct{}
	ids     *atomic.Uint64 // the last one given; all zygotes of a driver share it

	mu      sync.Mutex
	spawns  int
	holds   int
	pending map[uint64]*birth
	running map[uint64]func(exit)
	gone    error // set when the zygote has ended
	// silent is when it first left a spawn unanswered past its bound: it may be
	// stopped, or stuck. What runs in it still may, for longest.
	silent  time.Time
	longest time.Duration
}

// startZygote starts one and waits until it has imported and built its root.
func startZygote(ctx context.Context, python Python, config zygoteConfig, ids *atomic.Uint64) (*zygote, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a socket for the zygote: %w", err)
	}
	// One packet holds the configuration, and one the answer.
	for _, end := range pair {
		unix.SetsockoptInt(end, unix.SOL_SOCKET, unix.SO_SNDBUF, maxWord)
	}
	unix.SetNonblock(pair[0], true)
	z := &zygote{
		channel: os.NewFile(uintptr(pair[0]), "zygote"),
		exited:  make(chan struct{}),
		ids:     ids,
		born:    time.Now(),
		longest: config.Limits.MaxRun + startBound,
		pending: map[uint64]*birth{},
		running: map[uint64]func(exit){},
	}
	theirs := os.NewFile(uintptr(pair[1]), "zygote")
	err = z.start(python, theirs, config)
	theirs.Close()
	if err != nil {
		z.channel.Close()
		return nil, err
	}
	if err := z.configure(ctx, config); err != nil {
		z.close()
		return nil, err
	}
	go z.read()
	return z, nil
}

// start executes the interpreter. The goroutine that starts it also waits for
// it, on one thread: the parent-death signal follows the thread, not the process.
func (z *zygote) start(python Python, channel *os.File, config zygoteConfig) error {
	program, err := zygoteProgram()
	if err != nil {
		return err
	}
	defer program.Close()
	stderr := &tail{}
	cmd := exec.Command(python.Executable, "-I", "-S", "-B", "/proc/self/fd/4")
	// Symbols are looked up once here, not again in every fork.
	cmd.Env = append(zygoteEnv(python), "LD_BIND_NOW=1")
	if slices.Contains(config.Without, "environment") {
		cmd.Env = append(os.Environ(), cmd.Env...)
	}
	cmd.Dir = "/"
	cmd.Stderr = stderr
	cmd.ExtraFiles = []*os.File{channel, program}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	if config.Unprivileged {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		z.end(fmt.Errorf("the zygote has ended: %w; it said: %s", err, stderr))
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("cannot start the zygote %q: %w", python.Executable, err)
	}
	z.kill = cmd.Process.Kill
	return nil
}

// zygoteEnv is the whole environment of programs, but for what a run adds.
func zygoteEnv(python Python) []string {
	dir := python.Executable[:strings.LastIndexByte(python.Executable, '/')]
	return []string{
		"PATH=" + dir + ":/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8", "USER=sandbox",
		"MPLBACKEND=Agg", "MPLCONFIGDIR=/tmp/.matplotlib",
		// A pool of threads must not be there when the zygote forks.
		"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1",
	}
}

// configure sends the configuration and waits for ready.
func (z *zygote) configure(ctx context.Context, config zygoteConfig) error {
	message, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		z.channel.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { z.channel.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := z.channel.Write(message); err != nil {
		return z.why("cannot configure the zygote", err)
	}
	ready, err := z.ready()
	if err != nil {
		return err
	}
	z.proc, z.live = ready.Proc, ready.Live
	z.channel.SetDeadline(time.Time{})
	return nil
}

// why adds what the zygote said at its end, if it has ended.
func (z *zygote) why(what string, err error) error {
	select {
	case <-z.exited:
		return fmt.Errorf("%s: %w", what, z.gone)
	case <-time.After(100 * time.Millisecond):
		return fmt.Errorf("%s: %w", what, err)
	}
}

// end marks the zygote as gone: its sandboxes are dead, its births will not be.
func (z *zygote) end(err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.gone = err
	for id, b := range z.pending {
		delete(z.pending, id)
		b.answer <- spawned{err: err}
	}
	for id, exited := range z.running {
		delete(z.running, id)
		exited(exit{})
	}
	close(z.exited)
}

// close ends the zygote, and with it all its sandboxes; it waits for that.
func (z *zygote) close() {
	z.channel.Close() // end of file ends it
	select {
	case <-z.exited:
	case <-time.After(2 * time.Second):
		_ = z.kill() // fails only when it has just ended
		<-z.exited
	}
}

// worn says whether the zygote has served long enough: its memory layout and
// its hash seed are those of every program it forks.
func (z *zygote) worn() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.spawns >= zygoteSpawns || time.Since(z.born) > zygoteAge
}

func (z *zygote) ended() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.gone != nil
}

// idle says whether no sandbox lives in it, and none is being born.
func (z *zygote) idle() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return len(z.running)+len(z.pending)+z.holds == 0
}

func (z *zygote) hold() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.holds++
}

func (z *zygote) release() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.holds--
}

func encoded(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
