package local

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

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
var unmapped = []string{"memfd_create", "shmget", "semget", "msgget"}

// Namespaces are made for a program, never by it.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// seccompProgram is the filter of system calls that programs run under, as the
// kernel takes it: the containers' default profile as an allow-list, tightened,
// less alsoRefused.
func seccompProgram(alsoRefused ...string) ([]byte, error) {
	here, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("cannot filter system calls on this machine: %w", err)
	}
	allowed, err := allowedCalls(here, alsoRefused)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(filter(here, allowed))
	if err != nil {
		return nil, fmt.Errorf("cannot assemble the seccomp filter: %w", err)
	}
	var b bytes.Buffer // an array of struct sock_filter
	if err := binary.Write(&b, binary.NativeEndian, raw); err != nil {
		return nil, fmt.Errorf("cannot encode the seccomp filter: %w", err)
	}
	return b.Bytes(), nil
}

// filter is the whole program, rule after rule. Each ends in a verdict or goes
// on to the next.
func filter(here *arch.Info, allowed []uint32) []bpf.Instruction {
	return slices.Concat(onlyFrom(here), socketRules(), coreRules(), fileRules(),
		[]bpf.Instruction{load(callNumber)}, judgeClone(), judgeSocket(), judgeNumber(intervals(allowed)))
}

var (
	allow   = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	refuse  = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	unknown = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
)

// onlyFrom ends a process that calls by another architecture's numbers: 32-bit
// calls on a 64-bit kernel. (Those of x32 are no numbers that the rest allows.)
func onlyFrom(here *arch.Info) []bpf.Instruction {
	return []bpf.Instruction{
		load(callArch),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(here.ID), SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
	}
}

// judgeClone allows new processes and threads, but no new namespaces. clone3
// hides its flags in memory; the C library falls back to clone without it.
func judgeClone() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1},
		unknown,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 4},
		load(argument0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaceFlags, SkipFalse: 1},
		refuse,
		allow,
	}
}

// judgeSocket allows the families that socketRules have looked at.
func judgeSocket() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_SOCKET, SkipTrue: 6},
		load(argument0),
		equal(unix.AF_UNIX, 3, 0),
		equal(unix.AF_INET, 2, 0),
		equal(unix.AF_INET6, 1, 0),
		refuse,
		allow,
	}
}

// interval is a run of call numbers, from start to the next one's start, that
// share a verdict.
type interval struct {
	start   uint32
	verdict bpf.Instruction
}

// intervals covers all numbers; allowed is sorted, without doubles.
func intervals(allowed []uint32) []interval {
	all := []interval{{0, refuse}}
	for i, n := range allowed {
		if i == 0 || allowed[i-1]+1 != n {
			all = append(all, interval{n, allow})
		}
		if i == len(allowed)-1 || allowed[i+1] != n+1 {
			all = append(all, interval{n + 1, refuse})
		}
	}
	return all
}

// judgeNumber finds the loaded call number's verdict by halving. The kernel
// tries each number once for every sandbox, when it takes the filter: a list
// would cost a quarter of a millisecond.
func judgeNumber(all []interval) []bpf.Instruction {
	if len(all) == 1 {
		return []bpf.Instruction{all[0].verdict}
	}
	half := len(all) / 2
	below, above := judgeNumber(all[:half]), judgeNumber(all[half:])
	if len(below) > 255 {
		panic("BUG: the seccomp filter is too long for its jumps")
	}
	node := bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: all[half].start, SkipTrue: uint8(len(below))}
	return slices.Concat([]bpf.Instruction{node}, below, above)
}

// allowedCalls are the numbers of the calls that the default profile allows
// without conditions, less those refused and those judged by their arguments.
func allowedCalls(here *arch.Info, alsoRefused []string) ([]uint32, error) {
	// A spec without capabilities: nothing that needs one is allowed.
	defaults, err := profile.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		return nil, fmt.Errorf("cannot load the default seccomp profile: %w", err)
	}
	var numbers []uint32
	for _, rule := range defaults.Syscalls {
		if rule.Action != specs.ActAllow || len(rule.Args) > 0 {
			continue
		}
		for _, name := range rule.Names {
			number, known := here.SyscallNames[name]
			if known && !slices.Contains(refused, name) && !slices.Contains(alsoRefused, name) && name != "clone" && name != "clone3" && name != "socket" {
				numbers = append(numbers, uint32(number))
			}
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}
