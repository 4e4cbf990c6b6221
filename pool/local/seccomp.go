package local

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	profile "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refused are system calls that the containers' default profile allows and a
// snippet has no use for: each has been part of a way out of a sandbox, or
// uses up what the whole machine shares.
var refused = []string{
	"add_key", "bpf", "io_uring_enter", "io_uring_register", "io_uring_setup", "kcmp", "keyctl", "mount_setattr",
	"name_to_handle_at", "open_by_handle_at", "open_tree", "perf_event_open", "personality", "pidfd_getfd",
	"process_madvise", "process_vm_readv", "process_vm_writev", "ptrace", "request_key", "syslog", "userfaultfd",
	"vmsplice", "fanotify_init", "fanotify_mark", "listmount", "statmount", "modify_ldt", "memfd_secret", "clock_settime", "clock_adjtime", "adjtimex", "settimeofday",
	// Counted per machine or per user, whatever the namespace; flushing takes the machine's disks.
	"io_setup", "inotify_init", "inotify_init1", "sync", "syncfs",
}

// unmapped are system calls that make memory which no process has mapped: only
// a cgroup counts it.
var unmapped = []string{"memfd_create", "shmget"}

// Namespaces are made for a program, never by it.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// seccompProgram is the filter of system calls that programs run under, as the
// kernel takes it: the containers' default profile as an allow-list, tightened,
// less alsoRefused.
func seccompProgram(alsoRefused ...string) ([]byte, error) {
	allowed, err := allowedCalls(alsoRefused)
	if err != nil {
		return nil, err
	}
	policy := seccomp.Policy{
		DefaultAction: seccomp.ActionErrno, // EPERM
		Syscalls: []seccomp.SyscallGroup{
			// The C library falls back to clone, whose flags can be looked at.
			{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"}},
			{Action: seccomp.ActionAllow, Names: allowed, NamesWithCondtions: []seccomp.NameWithConditions{
				{Name: "clone", Conditions: first(seccomp.BitsNotSet, namespaceFlags)},
				{Name: "socket", Conditions: first(seccomp.Equal, unix.AF_UNIX)},
				{Name: "socket", Conditions: first(seccomp.Equal, unix.AF_INET)},
				{Name: "socket", Conditions: first(seccomp.Equal, unix.AF_INET6)},
			}},
		},
	}
	filter, err := policy.Assemble()
	if err != nil {
		return nil, fmt.Errorf("cannot assemble the seccomp filter: %w", err)
	}
	return encode(slices.Concat(socketRules(), coreRules(), fileRules(), filter))
}

// first is a condition on a call's first argument.
func first(op seccomp.Operation, value uint64) seccomp.ArgumentConditions {
	return seccomp.ArgumentConditions{{Argument: 0, Operation: op, Value: value}}
}

// allowedCalls are the names that the default profile allows without
// conditions, less the refused ones and those with rules of our own.
func allowedCalls(alsoRefused []string) ([]string, error) {
	here, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("cannot filter system calls on this machine: %w", err)
	}
	// A spec without capabilities: nothing that needs one is allowed.
	defaults, err := profile.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		return nil, fmt.Errorf("cannot load the default seccomp profile: %w", err)
	}
	var names []string
	for _, rule := range defaults.Syscalls {
		if rule.Action != specs.ActAllow || len(rule.Args) > 0 {
			continue
		}
		for _, name := range rule.Names {
			_, known := here.SyscallNames[name]
			if known && !slices.Contains(refused, name) && !slices.Contains(alsoRefused, name) && name != "clone" && name != "clone3" && name != "socket" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// encode lays a program out as an array of struct sock_filter.
func encode(program []bpf.Instruction) ([]byte, error) {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("cannot assemble the seccomp filter: %w", err)
	}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, raw); err != nil {
		return nil, fmt.Errorf("cannot encode the seccomp filter: %w", err)
	}
	return b.Bytes(), nil
}
