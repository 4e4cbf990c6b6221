package server

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	rlimitNproc      = 6
	rlimitSigpending = 11
	// queuedSignals may wait in all processes of a program.
	queuedSignals = 1024
	// niceness lets the runner go first beside a busy program.
	niceness = 5
	// noCore keeps a crash from the node's handler of core dumps, which at any
	// other value, zero too, the kernel starts with root's rights on the dump.
	noCore = 1
	// ownThreads is room for the runner's threads, which count as well.
	ownThreads = 64
)

// bound sets what the interpreter, and all that it starts, may use. Memory, disk
// and processor are bounded around the pod.
func bound(pid int, l wire.Limits) error {
	limits := map[int]uint64{
		syscall.RLIMIT_CORE: noCore, syscall.RLIMIT_NOFILE: uint64(l.OpenFiles), syscall.RLIMIT_FSIZE: uint64(l.DiskBytes),
	}
	if ownUsers() {
		limits[rlimitNproc] = uint64(l.Processes + ownThreads)
		limits[rlimitSigpending] = queuedSignals
	}
	for resource, value := range limits {
		switch err := setLimit(pid, resource, value); {
		case errors.Is(err, syscall.ESRCH):
			return nil // it has ended by itself, which its control socket tells
		case err != nil:
			return fmt.Errorf("cannot bound the interpreter: %w", err)
		}
	}
	// Where the kernel must choose whom to end for memory, it is not the runner,
	// who can tell. Both are refused on some kernels, and both are a help only.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0)
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, niceness)
	return nil
}

// ownUsers says whether this is a user namespace of the pod's own. In another
// one, the kernel counts the processes of a user id over all pods of the node.
func ownUsers() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(b))
	return err == nil && len(fields) >= 3 && (fields[0] != fields[1] || fields[2] != "4294967295")
}

// setLimit sets a resource limit of another process, as far as its hard limit lets.
func setLimit(pid, resource int, value uint64) error {
	var now syscall.Rlimit
	if err := prlimit(pid, resource, nil, &now); err != nil {
		return err
	}
	value = min(value, now.Max)
	return prlimit(pid, resource, &syscall.Rlimit{Cur: value, Max: value}, nil)
}

func prlimit(pid, resource int, to, was *syscall.Rlimit) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource),
		uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(was)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
