package server_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A program that the memory limit has ended keeps its memory while somebody on the
// node looks into it: the runner has room to tell of it all the same.
func TestOutOfMemoryOfOneThatIsLookedInto(t *testing.T) {
	c, err := newContainer(t, 128<<20)
	if err != nil {
		t.Logf("nothing to test: no memory cgroup can be made here: %v", err)
		return
	}
	p := startPodBy(t, c.start, func(r *wire.RunnerConfig) { r.Limits.MemoryBytes = 128 << 20 })
	conn := p.connect()
	if err := lookInto(t, childOf(t, p.child())); err != nil {
		t.Logf("nothing to test: who looks into a process cannot be held up here: %v", err)
		return
	}
	res, err := conn.Run(t.Context(), &wire.Request{Code: "x = []\nwhile True: x.append(bytearray(1 << 20))"}, nil)
	if err != nil {
		t.Fatalf("cannot run: %v", err)
	}
	if res.Outcome != wire.OutOfMemory {
		t.Errorf("outcome %s (%s), exit %d, stderr %q", res.Outcome, res.Reason, res.ExitCode, res.Stderr)
	}
	p.waitGone(5 * time.Second)
}

// lookInto reads a process's memory into a page that is not there, and that nobody
// provides until the test ends: as long, the kernel keeps the process's memory.
func lookInto(t *testing.T, pid int) error {
	t.Helper()
	page, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	faults, err := holdFaults(page)
	if err != nil {
		return err
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	var at int64
	first, _, _ := strings.Cut(string(maps), "-")
	if _, err := fmt.Sscanf(first, "%x", &at); err != nil {
		return err
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { _, err := syscall.Pread(int(memory.Fd()), page, at); done <- err }()
	t.Cleanup(func() {
		syscall.Close(faults) // lets go of the reader
		if err := <-done; err != nil {
			t.Errorf("cannot read the memory of process %d: %v", pid, err)
		}
		memory.Close()
		syscall.Munmap(page)
	})
	select {
	case err := <-done:
		done <- nil
		return errors.Join(errors.New("the reader was not held up"), err)
	case <-time.After(100 * time.Millisecond):
		return nil
	}
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
