package seccomp

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// judged runs the filter on one call.
func judged(t *testing.T, vm *bpf.VM, archID uint32, nr int, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64) // struct seccomp_data; the VM reads big-endian words
	binary.BigEndian.PutUint32(data[callNumber:], uint32(nr))
	binary.BigEndian.PutUint32(data[callArch:], archID)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[argument0+8*i:], uint32(a))
	}
	verdict, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(verdict)
}

func TestProgram(t *testing.T) {
	m := here(t)
	allowed, err := m.allowedCalls([]string{"memfd_create"})
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(m.filter(allowed))
	if err != nil {
		t.Fatal(err)
	}
	f := func(want bpf.RetConstant, nr int, args ...uint64) {
		t.Helper()
		if got := judged(t, vm, uint32(m.ID), nr, args...); got != want.Val {
			t.Errorf("call %d%v: verdict %#x, want %#x", nr, args, got, want.Val)
		}
	}
	byArguments := []int{unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_SETRLIMIT, unix.SYS_PRLIMIT64}
	// Every number: what the profile allows, and nothing else.
	for nr := range 1024 {
		want := refuse
		if slices.Contains(allowed, uint32(nr)) {
			want = allow
		}
		if !slices.Contains(byArguments, nr) {
			f(want, nr)
		}
	}
	f(refuse, unix.SYS_MEMFD_CREATE)
	// Numbers of x32, and others out of range.
	f(refuse, 0x40000000|unix.SYS_READ)
	f(refuse, -1)
	// What nobody should have.
	f(refuse, unix.SYS_PTRACE)
	f(refuse, unix.SYS_UNSHARE)
	f(refuse, unix.SYS_IO_URING_SETUP)
	// Threads, but no namespaces.
	f(allow, unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_THREAD|uint64(unix.SIGCHLD))
	f(refuse, unix.SYS_CLONE, unix.CLONE_NEWUSER|uint64(unix.SIGCHLD))
	f(unknown, unix.SYS_CLONE3)
	// Sockets.
	f(allow, unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_SEQPACKET)
	f(allow, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	f(allow, unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM)
	f(refuse, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC)
	f(refuse, unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_DGRAM)
	f(refuse, unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM)
	f(refuse, unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_DGRAM)
	// Calls of another architecture end the process.
	if got := judged(t, vm, uint32(m.ID)+1, unix.SYS_READ); got != unix.SECCOMP_RET_KILL_PROCESS {
		t.Errorf("a call of another architecture: verdict %#x", got)
	}
}
