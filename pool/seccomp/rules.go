package seccomp

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// These rules stand before the policy, which can neither mask an argument nor
// look at half of one: the kernel takes 32 bits of what a register holds. Each
// ends in a refusal that is jumped over by what may go on to the policy.

// Offsets in struct seccomp_data; the low half of an argument comes first.
const (
	callNumber = 0
	callArch   = 4
	argument0  = 16
	argument1  = 24
	argument2  = 32
	highHalf   = 4
)

const typeMask = 0xf // of a socket's type: SOCK_NONBLOCK and SOCK_CLOEXEC aside

// socketRules let through streams and datagrams of TCP, UDP and this machine.
// Any other family or protocol, asked for by socket or socketpair, would have
// the kernel load a module for it, whoever asks.
func (m machine) socketRules() []bpf.Instruction {
	return []bpf.Instruction{
		load(callNumber),
		equal(m.number("socket"), 3, 0),
		equal(m.number("socketpair"), 0, 13),
		load(argument0), // a pair's family
		equal(unix.AF_UNIX, 11, 10),
		load(argument0), // a socket's family; the policy has the list
		equal(unix.AF_UNIX, 9, 0),
		load(argument1),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: typeMask},
		equal(unix.SOCK_STREAM, 1, 0),
		equal(unix.SOCK_DGRAM, 0, 4),
		load(argument2),
		equal(0, 3, 0),
		equal(unix.IPPROTO_TCP, 2, 0),
		equal(unix.IPPROTO_UDP, 1, 0),
		fail(unix.EPERM),
	}
}

// coreRules answer a change of RLIMIT_CORE with success and do nothing. At one
// byte it keeps a crash from the machine's handler of core dumps, which at any
// other value, zero too, the kernel starts with root's rights on the dump.
func (m machine) coreRules() []bpf.Instruction {
	return []bpf.Instruction{
		load(callNumber),
		equal(m.number("setrlimit"), 0, 2),
		load(argument0),
		equal(unix.RLIMIT_CORE, 7, 8),
		equal(m.number("prlimit64"), 0, 7),
		load(argument1),
		equal(unix.RLIMIT_CORE, 0, 5),
		load(argument2), // the new limits; none when they are only read
		equal(0, 0, 2),
		load(argument2 + highHalf),
		equal(0, 1, 0),
		fail(0),
	}
}

// fileRules refuse leases and notices of change: on a file that the sandbox can
// only read, the one holds up whoever writes it, the other tells of that.
func (m machine) fileRules() []bpf.Instruction {
	return []bpf.Instruction{
		load(callNumber),
		equal(m.number("fcntl"), 0, 4),
		load(argument1),
		equal(unix.F_SETLEASE, 1, 0),
		equal(unix.F_NOTIFY, 0, 1),
		fail(unix.EPERM),
	}
}

func load(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: 4} }

// equal skips instructions: one number of them when what was loaded is value,
// another when it is not.
func equal(value uint32, skipTrue, skipFalse uint8) bpf.Instruction {
	return bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: skipTrue, SkipFalse: skipFalse}
}

func fail(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}
