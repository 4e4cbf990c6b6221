package seccomp

import (
	"encoding/binary"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// passed is what the rules answer when a call goes on to the policy.
const passed = unix.SECCOMP_RET_ALLOW & 0xffff0000

// here is the machine that the tests run on.
func here(t *testing.T) machine {
	t.Helper()
	m, err := machineOf(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// judge runs rules on one call, as the kernel would.
func judge(t *testing.T, rules []bpf.Instruction, number uint32, arguments ...uint64) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(append(rules, bpf.RetConstant{Val: passed}))
	if err != nil {
		t.Fatal(err)
	}
	// The emulator loads big-endian words, the kernel its own: both read the
	// same halves in the same places.
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[callNumber:], number)
	for i, a := range arguments {
		binary.BigEndian.PutUint32(data[argument0+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[argument0+8*i+highHalf:], uint32(a>>32))
	}
	verdict, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(verdict)
}

func TestSocketRules(t *testing.T) {
	const refusal = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	f := func(want, number uint32, arguments ...uint64) {
		t.Helper()
		if got := judge(t, here(t).socketRules(), number, arguments...); got != want {
			t.Errorf("call %d %v: %#x, want %#x", number, arguments, got, want)
		}
	}
	// What programs use.
	f(passed, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0)
	f(passed, unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	f(passed, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP)
	f(passed, unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	f(passed, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM, 0)
	f(passed, unix.SYS_READ, unix.AF_TIPC, unix.SOCK_RAW, 132)
	// Raw, whatever flags come with it.
	f(refusal, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)
	f(refusal, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	// Protocols that are modules: SCTP, ICMP, MPTCP.
	f(refusal, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
	f(refusal, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)
	f(refusal, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	f(refusal, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_SEQPACKET, 0)
	// The same behind bits that the kernel does not look at.
	f(refusal, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 1<<32|unix.IPPROTO_SCTP)
	// A pair of a family that is a module.
	f(refusal, unix.SYS_SOCKETPAIR, unix.AF_TIPC, unix.SOCK_STREAM, 0)
	f(refusal, unix.SYS_SOCKETPAIR, unix.AF_RDS, unix.SOCK_SEQPACKET, 0)
}

func TestCoreRules(t *testing.T) {
	const ignored = unix.SECCOMP_RET_ERRNO
	f := func(want, number uint32, arguments ...uint64) {
		t.Helper()
		if got := judge(t, here(t).coreRules(), number, arguments...); got != want {
			t.Errorf("call %d %v: %#x, want %#x", number, arguments, got, want)
		}
	}
	const somewhere = 0x7fff00000000 // its low half is zero
	// A change of the limit on core dumps.
	f(ignored, unix.SYS_SETRLIMIT, unix.RLIMIT_CORE, somewhere)
	f(ignored, unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, somewhere)
	f(ignored, unix.SYS_PRLIMIT64, 0, 1<<32|unix.RLIMIT_CORE, somewhere+8)
	// A look at it, other limits, other calls.
	f(passed, unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, 0)
	f(passed, unix.SYS_SETRLIMIT, unix.RLIMIT_NOFILE, somewhere)
	f(passed, unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, somewhere)
	f(passed, unix.SYS_READ, unix.RLIMIT_CORE, unix.RLIMIT_CORE, somewhere)
}

func TestFileRules(t *testing.T) {
	f := func(want, number uint32, arguments ...uint64) {
		t.Helper()
		if got := judge(t, here(t).fileRules(), number, arguments...); got != want {
			t.Errorf("call %d %v: %#x, want %#x", number, arguments, got, want)
		}
	}
	// Leases and notices, also behind bits that the kernel does not look at.
	f(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM), unix.SYS_FCNTL, 5, unix.F_SETLEASE, unix.F_RDLCK)
	f(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM), unix.SYS_FCNTL, 5, 1<<32|unix.F_NOTIFY, 1)
	// What programs use.
	f(passed, unix.SYS_FCNTL, 5, unix.F_SETLK, 0)
	f(passed, unix.SYS_FCNTL, 5, unix.F_GETFL, 0)
	f(passed, unix.SYS_READ, 5, unix.F_SETLEASE, 0)
}
