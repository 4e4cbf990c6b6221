"""Tries, inside a sandbox, what a sandbox must refuse; prints what went wrong.

Run once when the service starts: a filter that is there but does nothing looks
just like one that works, until somebody tries.
"""

import ctypes
import json
import os
import resource
import socket
import sys

libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {"bpf": 321, "io_uring_setup": 425, "userfaultfd": 323, "keyctl": 250, "perf_event_open": 298, "clone": 56},
    "aarch64": {"bpf": 280, "io_uring_setup": 425, "userfaultfd": 282, "keyctl": 219, "perf_event_open": 241, "clone": 220},
}[os.uname().machine]
EPERM, EROFS, ENETUNREACH = 1, 30, 101
NEWUSER, SIGCHLD = 0x10000000, 17
wrong = []


def refused(name, result):
    """The filter answers EPERM before the kernel looks at any argument."""
    errno = ctypes.get_errno()
    if result != -1:
        wrong.append("the system call %s was let through" % name)
    elif errno != EPERM:
        wrong.append("the system call %s reached the kernel (errno %d)" % (name, errno))


def expect(good, text):
    if not good:
        wrong.append(text)


refused("mount", libc.mount(b"none", b"/nowhere", b"tmpfs", 0, None))
refused("unshare", libc.unshare(0))
refused("setns", libc.setns(-1, 0))
refused("ptrace", libc.ptrace(16, -1, 0, 0))
refused("personality", libc.personality(0xFFFFFFFF))
refused("process_vm_readv", libc.process_vm_readv(os.getpid(), None, 0, None, 0, 0))
refused("open_by_handle_at", libc.open_by_handle_at(-1, None, 0))
refused("clock_settime", libc.clock_settime(9999, ctypes.create_string_buffer(16)))
for name in ("bpf", "io_uring_setup", "userfaultfd", "keyctl", "perf_event_open"):
    refused(name, libc.syscall(NUMBERS[name], -1, 0, 0, 0, 0))
pid = libc.syscall(NUMBERS["clone"], NEWUSER | SIGCHLD, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
refused("clone of a user namespace", pid)
for family, kind, name in ((16, 3, "netlink"), (17, 3, "packet"), (40, 1, "vsock"), (2, 3, "raw")):
    try:
        socket.socket(family, kind).close()
        wrong.append("a %s socket was let through" % name)
    except PermissionError:
        pass
    except OSError as e:
        wrong.append("a %s socket reached the kernel (%s)" % (name, e))

status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line) if os.path.exists("/proc/self/status") else None
if status is not None:
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        expect(int(status[name], 16) == 0, "capabilities are left: %s is %s" % (name, status[name].strip()))
    expect(status["NoNewPrivs"].strip() == "1", "new privileges can be gained")
    expect(status["Seccomp"].strip() == "2", "no filter of system calls is installed")
    others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
    expect(not others, "processes of others are visible: %s" % others)
    expect(open("/proc/self/uid_map").read().split()[0] == "1000", "the sandbox has no user namespace of its own")
expect(os.getuid() == 1000 and os.getgid() == 1000, "the program runs as user %d" % os.getuid())
expect(os.getpid() < 10, "the program has no pid namespace of its own")
expect(os.statvfs("/").f_flag & os.ST_RDONLY and os.statvfs("/usr").f_flag & os.ST_RDONLY, "the root is writable")
disk = os.statvfs("/tmp")
expect(disk.f_blocks * disk.f_frsize <= int(sys.argv[1]), "the bytes on its disk are not bounded")
expect(disk.f_files <= int(sys.argv[2]), "the files on its disk are not bounded")
expect(socket.gethostname() == "sandbox", "the host's name is visible")
for limit in ("RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_CORE"):
    expect(resource.getrlimit(getattr(resource, limit))[1] != resource.RLIM_INFINITY, "%s is not set" % limit)
try:
    socket.create_connection(("192.0.2.1", 9), timeout=2)
    wrong.append("there is a network")
except OSError as e:
    expect(e.errno == ENETUNREACH, "there may be a network (%s)" % e)

print(json.dumps(wrong))
