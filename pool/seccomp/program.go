// Package seccomp makes the filter of system calls that programs in sandboxes
// run under, wherever a sandbox is made: pool/local gives it to its zygotes, and
// pool/runner/seccomp has it as a file, since the runner stands beside hostile
// code and is built from the standard library alone.
package seccomp

import (
	"bytes"
	"encoding/binary"
	"errors"
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

// Unmapped are system calls that make memory which no process has mapped: only
// a cgroup counts it. They are refused as well where there is none.
func Unmapped() []string { return []string{"memfd_create", "shmget", "semget", "msgget"} }

// Namespaces are made for a program, never by it.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Program is the filter of system calls as the kernel takes it on a processor
// that Go calls goarch: the containers' default profile as an allow-list,
// tightened, less alsoRefused.
func Program(goarch string, alsoRefused ...string) ([]byte, error) {
	m, err := machineOf(goarch)
	if err != nil {
		return nil, err
	}
	allowed, err := m.allowedCalls(alsoRefused)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(m.filter(allowed))
	if err != nil {
		return nil, fmt.Errorf("cannot assemble the seccomp filter: %w", err)
	}
	var b bytes.Buffer // an array of struct sock_filter, which is little-endian on every machine that we know
	if err := binary.Write(&b, binary.LittleEndian, raw); err != nil {
		return nil, fmt.Errorf("cannot encode the seccomp filter: %w", err)
	}
	return b.Bytes(), nil
}

// machine has the numbers that system calls have on one kind of processor.
type machine struct {
	*arch.Info
	goarch string
}

func machineOf(goarch string) (machine, error) {
	if goarch != "amd64" && goarch != "arm64" {
		return machine{}, fmt.Errorf("cannot filter system calls on %s: only amd64 and arm64 are known", goarch)
	}
	info, err := arch.GetInfo(goarch)
	if err != nil {
		return machine{}, fmt.Errorf("cannot filter system calls on %s: %w", goarch, err)
	}
	return machine{info, goarch}, nil
}

// number is that of a system call which every such machine has.
func (m machine) number(name string) uint32 {
	n, known := m.SyscallNames[name]
	if !known {
		panic("BUG: there is no system call " + name + " on " + m.Name)
	}
	return uint32(n)
}

// filter is the whole program, rule after rule. Each ends in a verdict or goes
// on to the next.
func (m machine) filter(allowed []uint32) []bpf.Instruction {
	return slices.Concat(m.only(), m.socketRules(), m.coreRules(), m.fileRules(),
		[]bpf.Instruction{load(callNumber)}, m.judgeClone(), m.judgeSocket(), judgeNumber(intervals(allowed)))
}

var (
	allow   = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	refuse  = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	unknown = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
)

// only ends a process that calls by another architecture's numbers: 32-bit
// calls on a 64-bit kernel. (Those of x32 are no numbers that the rest allows.)
func (m machine) only() []bpf.Instruction {
	return []bpf.Instruction{
		load(callArch),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(m.ID), SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
	}
}

// judgeClone allows new processes and threads, but no new namespaces. clone3
// hides its flags in memory; the C library falls back to clone without it.
func (m machine) judgeClone() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: m.number("clone3"), SkipTrue: 1},
		unknown,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: m.number("clone"), SkipTrue: 4},
		load(argument0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaceFlags, SkipFalse: 1},
		refuse,
		allow,
	}
}

// judgeSocket allows the families that socketRules have looked at.
func (m machine) judgeSocket() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: m.number("socket"), SkipTrue: 6},
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
func (m machine) allowedCalls(alsoRefused []string) ([]uint32, error) {
	judged := []string{"clone", "clone3", "socket"}
	not := slices.Concat(refused, alsoRefused, judged)
	var numbers []uint32
	for _, rule := range profile.DefaultProfile().Syscalls {
		if rule.Action != specs.ActAllow || len(rule.Args) > 0 || !m.applies(rule) {
			continue
		}
		for _, name := range rule.Names {
			if number, known := m.SyscallNames[name]; known && !slices.Contains(not, name) {
				numbers = append(numbers, uint32(number))
			}
		}
	}
	if len(numbers) == 0 {
		return nil, errors.New("cannot filter system calls: the default seccomp profile allows none")
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

// applies says whether a rule of the profile is for a process without any
// capability on this machine. The kernels that rules want are older than any
// that we serve.
func (m machine) applies(rule *profile.Syscall) bool {
	if in := rule.Includes; in != nil && (len(in.Caps) > 0 || len(in.Arches) > 0 && !slices.Contains(in.Arches, m.goarch)) {
		return false
	}
	out := rule.Excludes
	return out == nil || !slices.Contains(out.Arches, m.goarch)
}
