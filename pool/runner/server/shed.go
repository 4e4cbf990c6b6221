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

// maxConfig bounds a configuration on its way through a socket: less than any
// takes in before somebody reads.
const maxConfig = 64 << 10

// Shed replaces this process by itself without an environment: the new one gets
// args and, as the last argument, the descriptor that TakeConfig reads c from.
// It returns only when that is not possible.
func Shed(c wire.RunnerConfig, args ...string) error {
	if c.Copy {
		c.Image = noteImage(os.Environ())
	} else if err := findPython(&c); err != nil { // PATH is gone afterwards
		return err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(text) > maxConfig {
		return fmt.Errorf("the runner's configuration has %d bytes; at most %d are possible", len(text), maxConfig)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("cannot make a socket: %w", err)
	}
	if n, err := syscall.SendmsgN(pair[1], text, nil, nil, syscall.MSG_DONTWAIT); err != nil || n != len(text) {
		return fmt.Errorf("cannot hand the configuration over: %d of %d bytes were taken: %w", n, len(text), err)
	}
	syscall.CloseOnExec(pair[1])
	// This thread alone survives, and what it may not do, nothing after it may. It
	// should be the process's first, which a parent's death may be told to.
	runtime.LockOSThread()
	if err := prctl(prSetNoNewPrivs, 1); err != nil {
		return fmt.Errorf("cannot give up new privileges: %w", err)
	}
	argv := append([]string{os.Args[0]}, args...)
	err = syscall.Exec("/proc/self/exe", append(argv, strconv.Itoa(pair[0])), []string{})
	return fmt.Errorf("cannot start the runner again without its environment: %w", err)
}

func findPython(c *wire.RunnerConfig) error {
	python, err := exec.LookPath(c.Python)
	if err == nil {
		python, err = filepath.Abs(python)
	}
	if err != nil {
		return fmt.Errorf("cannot find the Python interpreter %q in this image: %w", c.Python, err)
	}
	c.Python = python
	return nil
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
	if err := setLimit(0, syscall.RLIMIT_CORE, noCore); err != nil {
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
