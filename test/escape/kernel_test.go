package escape

// kernelRows knock at the kernel's doors.
func kernelRows() []row {
	return []row{
		{
			name: "system calls that change mounts and namespaces", layer: "seccomp", without: []string{"seccomp"},
			code: `
for name in ("mount", "umount2", "pivot_root", "chroot", "setns", "fsopen", "fsmount", "open_tree", "move_mount", "mount_setattr"):
    refused(name, -1, 0, 0, 0, 0)
refused("unshare", 0x10000000)  # a user namespace, where all rights come back
refused("unshare", 0x02000000)
refused("clone", 0x10000000 | 17, 0, 0, 0, 0)
refused("clone", 0x00020000 | 17, 0, 0, 0, 0)
refused("clone3", 0, 0, by=(errno.ENOSYS,))`,
		},
		{
			name:  "system calls that look into other processes",
			layer: "seccomp", without: []string{"seccomp"},
			code: `
me = os.getpid()
for name in ("process_vm_readv", "process_vm_writev"):
    refused(name, me, 0, 0, 0, 0, 0)
refused("ptrace", 0, 0, 0, 0)  # PTRACE_TRACEME
refused("kcmp", me, me, 0, 0, 0)
refused("pidfd_getfd", -1, 0, 0)`,
		},
		{
			name:  "the kernel's wide doors",
			layer: "seccomp", without: []string{"seccomp"},
			code: `
for name in ("bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "perf_event_open", "keyctl", "add_key", "request_key",
             "name_to_handle_at", "open_by_handle_at", "fanotify_init", "memfd_secret", "vmsplice"):
    refused(name, -1, 0, 0, 0, 0)
refused("userfaultfd", 1)
refused("personality", 0x0040000)`,
		},
		{
			name: "modules, reboot, swap, accounting", layer: "seccomp, then no capability", without: []string{"seccomp", "capabilities", "user"},
			// Each with arguments that do nothing even where it is let through.
			code: `
for name in ("init_module", "finit_module", "delete_module", "kexec_load", "reboot", "swapon", "quotactl"):
    refused(name, -1, -1, -1, -1)
refused("syslog", 99, 0, 0)
refused("sethostname", 0, -1)`,
		},
		{
			name:  "the machine's clock",
			layer: "seccomp, then no capability", without: []string{"seccomp"},
			code: `
refused("clock_settime", 9999, 0)
refused("settimeofday", -1, -1)
refused("clock_adjtime", 9999, 0)
refused("adjtimex", 0)`,
		},
		{
			name:  "system calls of 32 bits",
			layer: "seccomp, which knows one architecture", without: []string{"seccomp"},
			code: `
if X86:
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov $20, %eax (getpid); int $0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    if function() >= 0: could("call by int 0x80")
    if call(0x40000000 + 39) >= 0: could("call by x32")
else:
    refused("ptrace", 0, 0, 0, 0)`,
			want: func(r *result) string {
				if r.ExitCode == 128+31 && r.Stdout == "" {
					return "" // ended at the first such call
				}
				return held(r)
			},
		},
		{
			name:  "sockets that load modules or speak to the kernel",
			layer: "seccomp", without: []string{"seccomp"},
			code: `
for family, kind, protocol in ((16, 3, 0), (17, 3, 0), (40, 1, 0), (38, 5, 0), (30, 1, 0), (29, 3, 1), (21, 5, 0), (44, 3, 0),
        (2, 3, 6), (10, 3, 58), (2, 3 | 0o2000000, 1), (2, 2, 1), (2, 1, 132), (2, 5, 132), (2, 6, 33), (2, 1, 262), (2, 10, 3)):
    fails("socket(%d, %d, %d)" % (family, kind, protocol), lambda: socket.socket(family, kind, protocol), errno.EPERM)
pair = (ctypes.c_int * 2)()
for family in (30, 21, 43):
    refused("socketpair", family, 1, 0, pair)`,
		},
		{
			name:  "what the machine or the user has only so many of",
			layer: "seccomp", without: []string{"seccomp"},
			code: `
refused("inotify_init1", 0)
refused("io_setup", 1, (ctypes.c_long * 1)())`,
		},
		{
			name:  "leases and notices on the machine's files",
			layer: "seccomp (behind leases: another user)", without: []string{"seccomp"},
			code: `
import fcntl
fails("hold a lease", lambda: fcntl.fcntl(os.open("/usr/bin/env", os.O_RDONLY), 1024, 0), errno.EPERM)
fails("be told of changes", lambda: fcntl.fcntl(os.open("/usr", os.O_RDONLY), 1026, 1), errno.EPERM)`,
		},
		{
			name:  "flushing the machine's disks",
			layer: "seccomp", without: []string{"seccomp"},
			code: `refused("syncfs", os.open("/work", os.O_RDONLY))`,
		},
		{
			name:  "new rights",
			layer: "no_new_privs (behind it: nosuid mounts, an empty bounding set)", without: []string{"no_new_privs", "seccomp"},
			code: `
if libc.prctl(39, 0, 0, 0, 0) != 1: could("gain privileges by exec")
# A runtime of containers mounts images without nosuid: there, the line above is what holds.
if not POD and not os.statvfs("/usr").f_flag & os.ST_NOSUID: could("run setuid programs")`,
		},
		{
			name: "capabilities", layer: "no capability in any set", without: []string{"capabilities"},
			code: `
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if GVISOR and name not in status: continue  # it has no ambient ones
    if int(status[name], 16): could("use " + name)
for f in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.setresuid(0, 0, 0)):
    fails("become another user", f, errno.EPERM, errno.EINVAL)`,
		},
		{
			name:  "device nodes",
			layer: "no capability", without: []string{"capabilities", "user"},
			code: `
fails("make a device", lambda: os.mknod("/tmp/d", 0o60666, os.makedev(8, 0)), errno.EPERM)
fails("make a device", lambda: os.mknod("/tmp/c", 0o20666, os.makedev(1, 1)), errno.EPERM)
harmless = ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
if POD: harmless += ["console", "core", "mqueue", "ptmx", "pts", "termination-log", "tty"]  # the runtime's, one set for each container
if GVISOR: harmless += ["fuse", "net"]  # of its own kernel
if not set(os.listdir("/dev")) <= set(harmless): could("see the devices %s" % os.listdir("/dev"))
fails("open a terminal", lambda: os.open("/dev/tty", os.O_RDWR), errno.ENOENT, errno.ENXIO)`,
		},
		{
			name:  "the machine's handler of core dumps",
			layer: "rlimits, at one byte, and seccomp holds it there", without: []string{"rlimits", "seccomp"},
			code: `
try: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (OSError, ValueError): pass
limit = resource.getrlimit(resource.RLIMIT_CORE)
if limit != (1, 1): could("have its crash handled as root: %s" % (limit,))`,
		},
		{
			name:  "the machine's name",
			pod:   "the name that it sees is its pod's",
			layer: "hostname", without: []string{"hostname"},
			code: `if socket.gethostname() != "sandbox": could("see " + socket.gethostname())`,
		},
		{
			name:  "the place in the machine's cgroups",
			pod:   "what the container runtime shows of the machine: no content of it can be written, and none is another pod's",
			layer: "cgroup", without: []string{"cgroup"},
			code: `
for line in open("/proc/self/cgroup"):
    if line.strip().split(":", 2)[2] != "/": could("see " + line.strip())`,
		},
	}
}
