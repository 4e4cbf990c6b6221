package seccomp

import "syscall"

// attempt is a system call that does nothing where it is let through, and is
// answered differently then.
type attempt struct {
	name   string
	number uintptr
	args   [5]uintptr
	by     syscall.Errno // the filter's answer
}

const (
	nobody      = ^uintptr(0) // no process, no descriptor, and flags that nobody has
	cloneThread = 0x10000     // with a namespace, the kernel refuses it otherwise
	afNetlink   = 16
	afVsock     = 40
	fSetLease   = 1024
)

// attempts are of each kind of rule one or more, and such that the default
// profiles of container runtimes let through: those tell whether it is our filter.
var attempts = []attempt{
	{"ptrace", syscall.SYS_PTRACE, [5]uintptr{16, nobody}, syscall.EPERM},
	{"personality", syscall.SYS_PERSONALITY, [5]uintptr{0xffffffff}, syscall.EPERM},
	{"process_vm_readv", numbers.processVMReadv, [5]uintptr{}, syscall.EPERM},
	{"name_to_handle_at", numbers.nameToHandleAt, [5]uintptr{nobody}, syscall.EPERM},
	{"inotify_init1", syscall.SYS_INOTIFY_INIT1, [5]uintptr{nobody}, syscall.EPERM},
	{"io_setup", syscall.SYS_IO_SETUP, [5]uintptr{}, syscall.EPERM},
	{"vmsplice", syscall.SYS_VMSPLICE, [5]uintptr{nobody}, syscall.EPERM},
	{"syncfs", numbers.syncfs, [5]uintptr{nobody}, syscall.EPERM},
	{"clock_adjtime", numbers.clockAdjtime, [5]uintptr{nobody}, syscall.EPERM},
	{"io_uring_setup", 425, [5]uintptr{}, syscall.EPERM},
	{"unshare", syscall.SYS_UNSHARE, [5]uintptr{}, syscall.EPERM},
	{"clone of a user namespace", syscall.SYS_CLONE, [5]uintptr{syscall.CLONE_NEWUSER | cloneThread}, syscall.EPERM},
	{"clone3", 435, [5]uintptr{}, syscall.ENOSYS},
	{"socket of netlink", syscall.SYS_SOCKET, [5]uintptr{afNetlink, nobody}, syscall.EPERM},
	{"socket of vsock", syscall.SYS_SOCKET, [5]uintptr{afVsock, nobody}, syscall.EPERM},
	{"socketpair of netlink", syscall.SYS_SOCKETPAIR, [5]uintptr{afNetlink, nobody}, syscall.EPERM},
	{"fcntl of a lease", syscall.SYS_FCNTL, [5]uintptr{nobody, fSetLease}, syscall.EPERM},
}

// newer are the numbers of system calls that package syscall does not have.
type newer struct{ processVMReadv, nameToHandleAt, syncfs, clockAdjtime uintptr }
