package server_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A program that the memory limit has ended keeps its memory while somebody on the
// node looks into it: the runner has room to tell of it all the same, at once when
// there is little to tell, and with all that there is as soon as that somebody is done.
func TestOutOfMemoryOfOneThatIsLookedInto(t *testing.T) {
	f := func(lasts time.Duration, code, stdout string, files int) {
		t.Helper()
		code += "\nx = []\nwhile True: x.append(bytearray(1 << 20))"
		// In the instant before it gives its headroom the runner may want a page yet.
		const most, tries = 5, 7
		told := 0
		for try := 1; told < most; try++ {
			res, err := runLookedInto(t, lasts, code)
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				t.Logf("nothing to test: %v", err)
				return
			case err == nil && res.Outcome == wire.OutOfMemory && res.Stdout == stdout && len(res.Files) == files:
				told++
			case try-told > tries-most:
				t.Fatalf("told of %d of %d; the last: %+v, %v", told, try, res, err)
			}
		}
	}
	f(time.Minute, "", "", 0)
	f(300*time.Millisecond, `print("\a" * 250_000, end="", flush=True)`, strings.Repeat("\a", 250_000), 0)
	f(300*time.Millisecond, `open("file", "wb").write(b"x" * (8 << 20))`, "", 1)
}

// runLookedInto runs code that uses up 128 MiB. Its interpreter is looked into from
// before until so long after the kernel has ended it.
func runLookedInto(t *testing.T, lasts time.Duration, code string) (*wire.Result, error) {
	t.Helper()
	c, err := newContainer(t, 128<<20)
	if err != nil {
		return nil, fmt.Errorf("%w: no memory cgroup can be made here: %w", errors.ErrUnsupported, err)
	}
	p := startPodBy(t, c.start, func(r *wire.RunnerConfig) { r.Limits.MemoryBytes = 128 << 20 })
	conn := p.connect()
	l, err := lookInto(t, childOf(t, p.child()))
	if err != nil {
		return nil, fmt.Errorf("%w: who looks into a process cannot be held up here: %w", errors.ErrUnsupported, err)
	}
	defer l.leave()
	go func() {
		for !c.hasKilled() && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(lasts):
		}
		l.leave()
	}()
	res, err := conn.Run(t.Context(), &wire.Request{Code: code}, nil)
	p.waitGone(5 * time.Second)
	return res, err
}

// looker is somebody who looks into a process.
type looker struct {
	faults int
	page   []byte
	memory *os.File
	read   chan error
	once   sync.Once
}

// lookInto reads a process's memory into a page that is not there, and that nobody
// provides before leave: as long, the kernel keeps the process's memory.
func lookInto(t *testing.T, pid int) (*looker, error) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	var at int64
	first, _, _ := strings.Cut(string(maps), "-")
	if _, err := fmt.Sscanf(first, "%x", &at); err != nil {
		return nil, err
	}
	l := &looker{read: make(chan error, 1)}
	l.page, err = syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { syscall.Munmap(l.page) })
	if l.memory, err = os.Open(fmt.Sprintf("/proc/%d/mem", pid)); err != nil {
		return nil, err
	}
	t.Cleanup(func() { l.memory.Close() })
	if l.faults, err = holdFaults(l.page); err != nil {
		return nil, err
	}
	go func() { _, err := syscall.Pread(int(l.memory.Fd()), l.page, at); l.read <- err }()
	select {
	case err := <-l.read:
		return nil, errors.Join(errors.New("the reader was not held up"), err, syscall.Close(l.faults))
	case <-time.After(100 * time.Millisecond):
		return l, nil
	}
}

// leave ends the look, and returns when it has ended.
func (l *looker) leave() {
	l.once.Do(func() {
		syscall.Close(l.faults)
		<-l.read
	})
}

// holdFaults makes whoever touches these pages wait until the descriptor is closed.
func holdFaults(pages []byte) (int, error) {
	fd, _, errno := syscall.Syscall(unix.SYS_USERFAULTFD, syscall.O_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	const missing = 1
	version := struct{ api, features, ioctls uint64 }{api: 0xAA}
	where := struct{ start, length, mode, ioctls uint64 }{
		start: uint64(uintptr(unsafe.Pointer(&pages[0]))), length: uint64(len(pages)), mode: missing,
	}
	const apiRequest, registerRequest = 0xC018AA3F, 0xC020AA00
	_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, apiRequest, uintptr(unsafe.Pointer(&version)))
	if errno == 0 {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, registerRequest, uintptr(unsafe.Pointer(&where)))
	}
	if errno != 0 {
		syscall.Close(int(fd))
		return -1, errno
	}
	return int(fd), nil
}
