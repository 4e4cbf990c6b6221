package escape

// resourceRows take more than their share.
func resourceRows() []row {
	return []row{
		{
			name: "memory, in one process", layer: "memory", without: []string{"memory"}, busy: true,
			code: "hold = bytearray(b'x' * (1 << 20)) * 700\ncould('have 700 MiB')", want: ends("out_of_memory"),
		},
		{
			name:  "memory, in many processes",
			layer: "memory", without: []string{"memory"}, busy: true,
			code: `
have = mmap.mmap(-1, 8)  # all of them share it
for i in range(8):
    if os.fork() == 0:
        hold = bytearray(b"x" * (1 << 20)) * 90
        have[i] = 1
        while sum(have[:]) < 8: time.sleep(0.01)
        os._exit(0)
for i in range(8):
    if os.wait()[1]: sys.exit("one of them was ended")
if not POD: could("have 720 MiB")  # a node may end one process at a time: then the program goes on, and is told all the same`, want: ends("out_of_memory"),
		},
		{
			name: "memory that no process has mapped", layer: "memory; where it is watched, seccomp", without: []string{"memory", "seccomp"}, timeout: 5,
			code: `
hold = []
try:
    for i in range(7):
        hold.append(os.memfd_create("m"))
        for _ in range(100): os.write(hold[-1], b"x" * (1 << 20))
    could("have 700 MiB in files of memory")
except PermissionError: pass
shm = [call("shmget", 0, 100 << 20, 0o1600) for _ in range(7)]
if shm[0] >= 0:
    libc.shmat.restype = ctypes.c_void_p
    for id in shm:
        at = libc.shmat(id, None, 0)
        if at not in (None, ctypes.c_void_p(-1).value):
            ctypes.memset(at, 1, 100 << 20)
            libc.shmdt(ctypes.c_void_p(at))
        call("shmctl", id, 0, 0)
    could("have 700 MiB of shared memory")`,
			want: func(r *result) string {
				if r.Outcome == "out_of_memory" {
					return ""
				}
				return held(r)
			},
		},
		{
			name: "a billion calls deep", layer: "memory (before Python 3.11, the stack)", without: []string{"memory"}, busy: true,
			code: `
sys.setrecursionlimit(10**9)
def f(n):
    if n == 8_000_000:
        could("have eight million frames")
        os._exit(0)
    return f(n + 1) + 1
f(0)`,
			want: ends("killed", "out_of_memory", "error"),
		},
		{
			name: "a full disk", layer: "disk", without: []string{"disk"},
			code: `
for name in ("/tmp/a", "/work/b", "/dev/shm/c"):
    try:
        with open(name, "wb", 0) as f:
            for _ in range(130): f.write(b"x" * (1 << 20))
    except OSError as e:
        if e.errno == errno.ENOSPC: break
        raise
else: could("write 390 MiB")
for name in ("/tmp/a", "/work/b", "/dev/shm/c"):
    if os.path.exists(name): os.unlink(name)`,
			want: func(r *result) string {
				if r.Outcome == "out_of_memory" {
					return "the disk did not bound it"
				}
				return held(r)
			},
		},
		{
			name:  "no inode left",
			pod:   "no volume of a pod counts files; their memory bounds them (R15)",
			layer: "disk", without: []string{"disk"},
			code: `
try:
    for i in range(20000): os.close(os.open("/tmp/%d" % i, os.O_CREAT | os.O_WRONLY))
    could("make 20,000 files")
except OSError as e:
    if e.errno != errno.ENOSPC: raise`,
		},
		{
			name: "a file of 1 TiB without content", layer: "rlimits", without: []string{"rlimits"},
			code: `fails("make it", lambda: os.truncate(os.open("sparse", os.O_CREAT | os.O_RDWR), 1 << 40), errno.EFBIG)`,
		},
		{
			name: "more descriptors", layer: "rlimits", without: []string{"rlimits"},
			code: `
opened = 0
try:
    for opened in range(600): os.dup(0)
    could("open 600 files")
except OSError as e:
    if e.errno != errno.EMFILE: raise`,
		},
		{
			name:   "higher limits and priorities",
			gvisor: "limits and priorities are among the processes of its own kernel; its threads on the node have the pod's",
			layer:  "no capability over the machine (user, capabilities) below rlimits", without: []string{"user", "capabilities"},
			code: `
for name in ("NOFILE", "NPROC", "FSIZE", "MEMLOCK", "SIGPENDING", "NICE", "RTPRIO"):
    which = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(which)[1]
    if hard == resource.RLIM_INFINITY: could("use any amount of " + name)
    try:
        resource.setrlimit(which, (hard, hard + 1))
        could("raise " + name)
    except (ValueError, OSError): pass
fails("go before others", lambda: os.nice(-1), errno.EPERM)
for policy in (os.SCHED_FIFO, os.SCHED_RR):
    fails("run in real time", lambda: os.sched_setscheduler(0, policy, os.sched_param(1)), errno.EPERM)
refused("ioprio_set", 1, 0, 1 << 13)
for kind in (os.PRIO_PGRP, os.PRIO_USER):
    fails("put others first", lambda: os.setpriority(kind, 0, -5), errno.EPERM, errno.EACCES)`,
		},
		{
			name: "shared memory, queues and semaphores of another sandbox", layer: "ipc", without: []string{"ipc"},
			beside: `
key = 0x5ca9e
ids = [call("msgget", key, 0o1666), call("semget", key, 1, 0o1666)]
if min(ids) < 0 and ctypes.get_errno() != errno.EPERM: could("not make them: %s" % ids) # where memory is watched, nobody can
time.sleep(1.5)
call("msgctl", ids[0], 0, 0)
libc.semctl(ids[1], 0, 0)`,
			code: `
refused("msgget", 0x5ca9e, 0, by=(errno.ENOENT, errno.EPERM))
refused("semget", 0x5ca9e, 0, 0, by=(errno.ENOENT, errno.EPERM))
if os.listdir("/dev/shm"): could("see %s" % os.listdir("/dev/shm"))`,
		},
		{
			name:   "queued signals",
			shared: "the kernel counts them by user id, over all pods of a node: a bound would let one pod take all of them",
			layer:  "rlimits", without: []string{"rlimits"},
			code: `
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
n = 0
while n < 5000 and libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0: n += 1
if n > 1024: could("queue %d signals" % n)`,
		},
	}
}
