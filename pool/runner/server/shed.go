package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Numbers of prctl that the standard library does not name.
const (
	prSetDumpable   = 4
	prSetNoNewPrivs = 38
)

// maxConfig bounds a configuration on its way through a pipe: what the smallest
// pipe holds, which the kernel hands out to a user who has many.
const maxConfig = 4096

// Shed replaces this process by itself without an environment: the new one gets
// args and, as the last argument, the descriptor that TakeConfig reads c from.
// It returns only when that is not possible.
func Shed(c wire.RunnerConfig, args ...string) error {
	python, err := exec.LookPath(c.Python) // PATH is gone afterwards
	if err == nil {
		c.Python, err = filepath.Abs(python)
	}
	if err != nil {
		return fmt.Errorf("cannot find the Python interpreter %q in this image: %w", c.Python, err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(text) > maxConfig {
		return fmt.Errorf("the runner's configuration has %d bytes; at most %d are possible", len(text), maxConfig)
	}
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	if _, err := syscall.Write(pipe[1], text); err != nil {
		return fmt.Errorf("cannot write to a pipe: %w", err)
	}
	syscall.CloseOnExec(pipe[1])
	// This thread alone survives, and what it may not do, nothing after it may.
	runtime.LockOSThread()
	if err := prctl(prSetNoNewPrivs, 1); err != nil {
		return fmt.Errorf("cannot give up new privileges: %w", err)
	}
	argv := append([]string{os.Args[0]}, args...)
	err = syscall.Exec("/proc/self/exe", append(argv, strconv.Itoa(pipe[0])), []string{})
	return fmt.Errorf("cannot start the runner again without its environment: %w", err)
}

// TakeConfig reads what Shed left behind the descriptor.
func TakeConfig(descriptor string) (wire.RunnerConfig, error) {
	fd, err := strconv.Atoi(descriptor)
	if err != nil || fd < 3 {
		return wire.RunnerConfig{}, fmt.Errorf("%q is not a descriptor of the runner's", descriptor)
	}
	f := os.NewFile(uintptr(fd), "configuration")
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return wire.RunnerConfig{}, fmt.Errorf("cannot read the runner's configuration: %w", err)
	}
	return ParseConfig(text)
}

// Harden makes this process fit to stand beside hostile code of the same user:
// nobody reads its memory or its descriptors, or ends it with a signal.
func Harden() error {
	if os.Getpid() != 1 {
		// It kills all that it can signal, which must be no more than its pod.
		return errors.New("cannot serve: the runner must be process 1 of a pid namespace of its own")
	}
	if err := keepInherited(); err != nil {
		return err
	}
	if err := prctl(prSetDumpable, 0); err != nil {
		return fmt.Errorf("cannot close the runner's memory to others: %w", err)
	}
	none := syscall.Rlimit{}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &none); err != nil {
		return fmt.Errorf("cannot forbid core dumps: %w", err)
	}
	ignoreSignals()
	return nil
}

// keepInherited keeps to this process the descriptors that it was started with.
// All that Go opens is kept anyway.
func keepInherited() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("cannot list the open descriptors: %w", err)
	}
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// ignoreSignals takes every signal that would end a Go program and does nothing.
// Process 1 gets those only that it has a handler for, and Go has one for each.
// To ignore them truly would be inherited by programs. SIGTERM is the caller's.
func ignoreSignals() {
	unread := make(chan os.Signal, 1)
	for s := syscall.Signal(1); s < 32; s++ {
		switch s {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGCHLD, syscall.SIGURG:
		default:
			signal.Notify(unread, s)
		}
	}
}

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
