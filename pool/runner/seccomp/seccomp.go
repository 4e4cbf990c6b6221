// Package seccomp puts the interpreter of a pod under the filter of system
// calls that local mode has (pool/seccomp). What a container runtime's default
// profile lets through is more than programs need.
package seccomp

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// Numbers of prctl that the standard library does not name.
const (
	prSetNoNewPrivs   = 38
	prSetSeccomp      = 22
	seccompModeFilter = 2
)

// instruction is the size of a struct sock_filter.
const instruction = 8

// Do calls f on a thread of its own that is under the filter, and ends with it.
// A process that f starts is under the filter for good; this one is not. An
// error of f comes back as it is; any other means that f was not called, because
// the filter could not be installed or does not refuse what it must.
func Do(f func() error) error { return under(filter, f) }

func under(filter []byte, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		err := install(filter)
		if err == nil {
			err = probe()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// program is struct sock_fprog.
type program struct {
	length uint16
	filter *byte
}

// install puts the calling thread under the filter.
func install(filter []byte) error {
	p := program{length: uint16(len(filter) / instruction), filter: &filter[0]}
	if err := prctl(prSetNoNewPrivs, 1, nil); err != nil {
		return fmt.Errorf("cannot give up new privileges: %w", err)
	}
	if err := prctl(prSetSeccomp, seccompModeFilter, &p); err != nil {
		return fmt.Errorf("cannot install the filter of system calls: %w; the kernel of the node must have CONFIG_SECCOMP_FILTER", err)
	}
	return nil
}

func prctl(option, value uintptr, p *program) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, uintptr(unsafe.Pointer(p)), 0, 0, 0)
	runtime.KeepAlive(p)
	if errno != 0 {
		return errno
	}
	return nil
}

// probe tries, on the calling thread, what the filter refuses: one that is
// there but does nothing looks just like one that works, until somebody tries.
func probe() error {
	var wrong []string
	for _, a := range attempts {
		result, _, errno := syscall.RawSyscall6(a.number, a.args[0], a.args[1], a.args[2], a.args[3], a.args[4], 0)
		switch {
		case errno == 0:
			wrong = append(wrong, fmt.Sprintf("%s was let through (%d)", a.name, result))
		case errno != a.by:
			wrong = append(wrong, fmt.Sprintf("%s reached the kernel (%s)", a.name, errno))
		}
	}
	if len(wrong) > 0 {
		return errors.New("the filter of system calls does not hold here, so nothing is run: " + strings.Join(wrong, ", "))
	}
	return nil
}
