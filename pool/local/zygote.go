package local

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
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
	HostID       int         `json:"host_id"` // user and group id of programs, as the machine sees them
	Nice         int         `json:"nice"`
	AddressSpace int64       `json:"address_space"` // bytes a process; 0 where a cgroup bounds memory
	Seccomp      string      `json:"seccomp"`
	Init         string      `json:"init"`
	Fresh        bool        `json:"fresh_interpreter"`
	Start        string      `json:"start"` // argument of a fresh interpreter
	Without      []string    `json:"without"`
}

// zygote is a started zygote process. Its one reader goroutine ends with it.
type zygote struct {
	channel *os.File // SOCK_SEQPACKET
	proc    bool     // its sandboxes have a /proc
	born    time.Time
	kill    func() error
	exited  chan struct{}

	mu      sync.Mutex
	lastID  uint64
	spawns  int
	holds   int
	pending map[uint64]*birth
	running map[uint64]func(exit)
	gone    error // set when the zygote has ended
}

// exit is how the interpreter of a sandbox ended; known is false when the
// zygote, its parent, ended first.
type exit struct {
	status syscall.WaitStatus
	known  bool
}

// birth is a spawn that the zygote has not answered yet.
type birth struct {
	exited func(exit) // called once, when the interpreter has ended; must not block
	answer chan spawned
}

type spawned struct {
	initFD, mainFD int
	err            error
}

// startZygote starts one and waits until it has imported and built its root.
func startZygote(ctx context.Context, python Python, config zygoteConfig) (*zygote, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a socket for the zygote: %w", err)
	}
	// One packet holds the configuration.
	unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20)
	unix.SetNonblock(pair[0], true)
	z := &zygote{
		channel: os.NewFile(uintptr(pair[0]), "zygote"),
		exited:  make(chan struct{}),
		born:    time.Now(),
		pending: map[uint64]*birth{},
		running: map[uint64]func(exit){},
	}
	theirs := os.NewFile(uintptr(pair[1]), "zygote")
	err = z.start(python, theirs, config.Unprivileged)
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
func (z *zygote) start(python Python, channel *os.File, unprivileged bool) error {
	program, err := zygoteProgram()
	if err != nil {
		return err
	}
	defer program.Close()
	stderr := &tail{}
	cmd := exec.Command(python.Executable, "-I", "-S", "-B", "/proc/self/fd/4")
	cmd.Env = zygoteEnv(python)
	cmd.Dir = "/"
	cmd.Stderr = stderr
	cmd.ExtraFiles = []*os.File{channel, program}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	if unprivileged {
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
	buf := make([]byte, 8<<10)
	n, err := z.channel.Read(buf)
	if err != nil || n == 0 {
		return z.why("the zygote did not get ready", err)
	}
	var ready struct {
		Proc  bool   `json:"proc"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(buf[:n], &ready); err != nil {
		return fmt.Errorf("cannot understand the zygote: %w", err)
	}
	if ready.Error != "" {
		return fmt.Errorf("the zygote cannot get ready: %s", ready.Error)
	}
	z.proc = ready.Proc
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

// spawn asks for a new sandbox process with the given descriptors, and returns
// pidfds of its init and of its interpreter, whose exit is told to exited.
func (z *zygote) spawn(ctx context.Context, fds []int, exited func(exit)) (initFD, mainFD int, err error) {
	b := &birth{exited: exited, answer: make(chan spawned, 1)}
	id, err := z.register(b)
	if err != nil {
		return -1, -1, err
	}
	if err := z.send(id, fds); err != nil {
		return -1, -1, fmt.Errorf("cannot ask the zygote for a sandbox: %w", err)
	}
	select {
	case s := <-b.answer:
		return s.initFD, s.mainFD, s.err
	case <-ctx.Done():
		b.abandon()
		return -1, -1, ctx.Err()
	}
}

func (z *zygote) register(b *birth) (uint64, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.gone != nil {
		return 0, z.gone
	}
	z.lastID++
	z.spawns++
	z.pending[z.lastID] = b
	return z.lastID, nil
}

func (z *zygote) send(id uint64, fds []int) error {
	raw, err := z.channel.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		sendErr = unix.Sendmsg(int(fd), binary.LittleEndian.AppendUint64(nil, id), unix.UnixRights(fds...), nil, 0)
		return sendErr != unix.EAGAIN
	})
	return errors.Join(err, sendErr)
}

// abandon kills a sandbox that nobody waits for any more, when it comes.
func (b *birth) abandon() {
	go func() {
		s := <-b.answer
		if s.err == nil {
			unix.PidfdSendSignal(s.initFD, unix.SIGKILL, nil, 0)
			unix.PidfdSendSignal(s.mainFD, unix.SIGKILL, nil, 0)
			unix.Close(s.initFD)
			unix.Close(s.mainFD)
		}
	}()
}

// read dispatches the zygote's messages until it ends.
func (z *zygote) read() {
	raw, err := z.channel.SyscallConn()
	if err != nil {
		return
	}
	buf, oob := make([]byte, 1024), make([]byte, unix.CmsgSpace(2*4))
	for {
		var n, oobn int
		var readErr error
		err := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, readErr = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC)
			return readErr != unix.EAGAIN && readErr != unix.EINTR
		})
		if err != nil || readErr != nil || n < 9 {
			return
		}
		z.dispatch(buf[0], binary.LittleEndian.Uint64(buf[1:9]), buf[9:n], oob[:oobn])
	}
}

func (z *zygote) dispatch(kind byte, id uint64, body, oob []byte) {
	z.mu.Lock()
	defer z.mu.Unlock()
	switch kind {
	case 'P':
		b := z.pending[id]
		delete(z.pending, id)
		fds, err := parseRights(oob)
		if err != nil || len(fds) != 2 || b == nil {
			panic(fmt.Sprintf("BUG: the zygote answered spawn %d with %d descriptors: %v", id, len(fds), err))
		}
		z.running[id] = b.exited
		b.answer <- spawned{initFD: fds[0], mainFD: fds[1]}
	case 'X':
		if b := z.pending[id]; b != nil {
			delete(z.pending, id)
			b.answer <- spawned{err: fmt.Errorf("the zygote cannot make a sandbox: %s", body)}
		}
	case 'E':
		if exited := z.running[id]; exited != nil {
			delete(z.running, id)
			exited(exit{syscall.WaitStatus(binary.LittleEndian.Uint32(body)), true})
		}
	}
}

func parseRights(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("no descriptors came: %w", err)
	}
	return unix.ParseUnixRights(&messages[0])
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
		z.kill()
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

// tail keeps the last of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-2000):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.b) == 0 {
		return "nothing"
	}
	return strings.TrimSpace(string(t.b))
}

func encoded(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
