"""The system calls that the standard library does not have."""

import ctypes
import fcntl
import os
import struct

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
MNT_DETACH = 2

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS = 4, 22, 24, 28, 38
SECCOMP_MODE_FILTER = 2
# NOROOT, NO_SETUID_FIXUP, KEEP_CAPS off, each locked; no ambient capability.
SECUREBITS = 0x01 | 0x02 | 0x04 | 0x08 | 0x20 | 0x40 | 0x80

_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_SYS_MOUNT_SETATTR = 442
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}[os.uname().machine]
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x1 | 0x40
_LOOPBACK_UP = struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING)
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63  # beyond what any kernel has; the surplus is refused

_libc = ctypes.CDLL(None, use_errno=True)
for _name in ("capset", "prctl", "sethostname"):
    getattr(_libc, _name)  # it is kept: otherwise each fork, the first to use it, would look it up
try:
    _fork = ctypes.PyDLL(None)._Fork  # holds the interpreter's lock, as os.fork does
except AttributeError:  # a C library before 2021
    _fork = os.fork


def _check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
    return result


def _bytes(text):
    return None if text is None else text.encode()


def mount(source, target, kind=None, flags=0, options=None):
    result = _libc.mount(_bytes(source), _bytes(target), _bytes(kind), ctypes.c_ulong(flags), _bytes(options))
    _check(result, "mount %s" % target)


def unmount(target):
    _check(_libc.umount2(_bytes(target), MNT_DETACH), "unmount %s" % target)


def restrict_mount(target, attributes, recursive=True):
    """Adds attributes to a mount, and to those below it; never takes any away."""
    attr = struct.pack("QQQQ", attributes, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    result = _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, _bytes(target), flags, attr, len(attr))
    _check(result, "mount_setattr %s" % target)


def enter_root(path):
    """Makes path the root of this mount namespace; nothing of the old one stays."""
    os.chdir(path)
    _check(_libc.syscall(_SYS_PIVOT_ROOT, b".", b"."), "pivot_root %s" % path)
    unmount(".")
    os.chdir("/")


def unshare(flags):
    _check(_libc.unshare(flags), "unshare 0x%x" % flags)


def enter_namespace(fd, kind):
    _check(_libc.setns(fd, kind), "setns")


def prctl(option, a=0, b=0):
    result = _libc.prctl(option, ctypes.c_ulong(a), ctypes.c_ulong(b), ctypes.c_ulong(0), ctypes.c_ulong(0))
    return _check(result, "prctl %d" % option)


def drop_capabilities():
    """Empties every capability set of this process, for good."""
    for capability in range(_LAST_CAPABILITY + 1):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


class Filter:
    """A seccomp program, held in memory that stays where it is."""

    def __init__(self, program):
        self._program = ctypes.create_string_buffer(program, len(program))
        address = ctypes.addressof(self._program)
        self._fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, address))

    def install(self):
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(self._fprog))


def loopback_up(fd):
    # Of bytes ioctl would raise, and catch, that they cannot be written to.
    fcntl.ioctl(fd, _SIOCSIFFLAGS, bytearray(_LOOPBACK_UP))


class Hooks:
    """What modules imported meanwhile want done around a fork, in os.fork's order."""

    def __enter__(self):
        self._register = os.register_at_fork
        os.register_at_fork = self._note

    def __exit__(self, *_):
        os.register_at_fork = self._register

    def _note(self, *, before=None, after_in_parent=None, after_in_child=None):
        hooks = {"before": before, "after_in_parent": after_in_parent, "after_in_child": after_in_child}
        hooks = {when: hook for when, hook in hooks.items() if hook is not None}
        self._register(**hooks)  # programs fork too
        if "before" in hooks:
            _before.insert(0, before)
        if "after_in_parent" in hooks:
            _in_parent.append(after_in_parent)
        if "after_in_child" in hooks:
            _in_child.append(after_in_child)


_before, _in_parent, _in_child = [], [], []
_alone = False


def count_threads(proc):
    """Looks whether this process has one thread only; proc is an open /proc."""
    global _alone
    tasks = os.open("self/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=proc)
    _alone = len(os.listdir(tasks)) == 1
    os.close(tasks)


def fork():
    """Forks this process, which has one thread, with the hooks noted by Hooks.

    os.fork also makes anew the locks and threads of the interpreter and of the
    threading module, at the cost of 0.3 ms: where there is one thread, no lock is
    held by another. Where a module has started more, it is os.fork.
    """
    if not _alone:
        return os.fork()
    for hook in _before:
        hook()
    pid = _fork()
    for hook in _in_parent if pid else _in_child:
        hook()
    return pid


def set_hostname(name):
    _check(_libc.sethostname(_bytes(name), len(name)), "sethostname")
