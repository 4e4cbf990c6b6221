package escape

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// bomb is what ends a fork bomb where nothing else does: its own count. Each
// process has a number of its namespace; those that are refused use none up.
const bomb = `
over = mmap.mmap(-1, 1)  # all of them share it
def going():
    if os.getpid() > MOST + 22 and not over[0]:
        over[0] = 1
        could("have %d processes" % os.getpid())
    if over[0]: os._exit(0)
    return True
`

// processRows go for other processes, or try to outlive their run.
func processRows() []row {
	return []row{
		{
			name: "processes of the machine", layer: "pids", without: []string{"pids"}, host: bystander,
			here: "the process that it looks for is one of this machine; P21 looks at those of a pod",
			code: `
pid = int(os.environ["BYSTANDER"])
if pid > 1000:  # a small number may be our own
    fails("find the machine's process", lambda: os.kill(pid, 0), errno.ESRCH)
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
if others: could("see the processes %s" % others[:9])`,
		},
		{
			name:  "processes of another sandbox",
			layer: "pids (behind it: another user)", without: []string{"pids", "users"},
			beside: "time.sleep(1.5)", timeout: 60, // a system call takes gVisor up to 0.1 ms
			code: `
for pid in range(2, 1 << 17):
    if pid == os.getpid(): continue
    try: os.kill(pid, 0)
    except OSError: continue
    # A thread of its pod's process 1, which no signal ends (P21), has a number, too.
    if POD and "\nTgid:\t1\n" in open("/proc/%d/status" % pid).read(): continue
    could("signal process %d" % pid)
    break`,
		},
		{
			name: "process 1", layer: "capabilities and user: another user, without rights over it", without: []string{"capabilities", "user"},
			code: `
# gVisor's kernel shows a user its own processes: what can be read there must tell nothing.
shown = ("environ", "maps", "fd", "auxv") if GVISOR else ()
if GVISOR:
    names = {v.split(b"=")[0].decode() for v in open("/proc/1/environ", "rb").read().split(b"\0") if v}
    names -= {"CODE_SANDBOX_RUNNER", "PATH", "HOME", "HOSTNAME", "LANG", "TERM"}
    if names: could("read variables of process 1: %s" % sorted(names))
for name in ("environ", "mem", "maps", "fd", "root", "cwd", "exe", "auxv", "stack", "syscall"):
    if name in shown: continue
    path = "/proc/1/" + name
    try:
        if name == "fd": os.readlink(path + "/0")
        elif name in ("root", "cwd", "exe"): os.readlink(path)
        else: open(path, "rb").read(1)
        could("read " + path)
    except OSError as e:
        if e.errno not in (errno.EACCES, errno.EPERM, errno.ENOENT): could("almost read %s: %s" % (path, e))
# In gVisor a program can end its own process 1, and with it its own run alone: it is told as lost.
for s in () if GVISOR else (signal.SIGKILL, signal.SIGSTOP):  # heard by nobody, if they are let through at all
    try: os.kill(1, s)
    except PermissionError: pass
os.kill(1, 0) if os.path.exists("/proc/1") else could("end process 1")`,
			want: func(r *result) string {
				if r.ExitCode == 1 && r.Stdout == "" && contains(r.Stderr, "PermissionError") {
					return "" // not even a signal
				}
				return held(r)
			},
		},
		{
			name:  "the machine in /proc",
			pod:   "what the container runtime shows of the machine: no content of it can be written, and none is another pod's",
			layer: "proc: one of its own, of processes only", without: []string{"proc"},
			code: `
open("/proc/self/status").read()  # there is one
for name in ("sys", "kcore", "kmsg", "sysrq-trigger", "bus", "fs", "irq", "keys", "timer_list", "modules", "config.gz"):
    if os.path.exists("/proc/" + name): could("see /proc/" + name)
for path in ("/sys/kernel", "/sys/fs", "/sys/class"):
    if os.path.exists(path): could("see " + path)`,
		},
		{
			name:   "the last to be ended for memory",
			gvisor: "the place is one among the processes of its own kernel; the node ends the pod as a whole",
			layer:  "oom_score: a place among the first, and no right to change it", without: []string{"oom_score"},
			code: `
score = os.open("/proc/self/oom_score_adj", os.O_RDWR)
if int(os.read(score, 9)) < 500: could("inherit the service's place among those that memory is taken from")
fails("be the last to be ended", lambda: os.pwrite(score, b"-1000", 0), errno.EACCES, errno.EPERM)`,
		},
		{
			name: "descriptors of the service", layer: "descriptors: only four", without: []string{"descriptors"},
			code: `
kinds = {int(n): os.readlink("/proc/self/fd/" + n).split(":")[0] for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n) or int(n) < 4}
kinds = {n: k for n, k in kinds.items() if not k.startswith("/proc")}
if kinds != {0: "/dev/null", 1: "pipe", 2: "pipe", 3: "socket"}: could("use the descriptors %s" % kinds)`,
		},
		{
			name: "variables of the service", layer: "environment: one of its own", without: []string{"environment"}, host: secret,
			here: "the service is another container there; P21 looks for its variables",
			code: `
word = os.environ["WORD"][::-1]  # backwards, so that it is not found in this program
here = word.encode()
del os.environ["WORD"]
for line in open("/proc/self/maps"):
    fields = line.split()
    if "r" not in fields[1][0] or fields[-1] in ("[vvar]", "[vsyscall]", "[vvar_vclock]"): continue
    low, high = (int(x, 16) for x in fields[0].split("-"))
    with open("/proc/self/mem", "rb", 0) as f:
        f.seek(low)
        try: memory = f.read(high - low)
        except OSError: continue
    for i in range(memory.count(here)):
        at = memory.find(here)
        if memory[max(0, at - 7):at] == b"SECRET=": could("read the service's environment")
        memory = memory[at + 1:]`,
		},
		{
			name: "a daemon in a session of its own", layer: "pids: when process 1 ends, all do", without: []string{"pids"}, host: noneLeft,
			here: "its processes cannot be seen from here; R11 says that nothing outlives a run",
			code: `
libc.prctl(36, 1, 0, 0, 0)  # orphans come to this process, not to process 1
libc.prctl(1, 0, 0, 0, 0)   # no signal when the parent ends
if os.fork() == 0:
    os.setsid()
    for s in range(1, 65):
        try: signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError): pass
    if os.fork() == 0:
        os.closerange(0, 100)
        os.execv("/bin/sleep", ["sleep", os.environ["MARK"]])
    os._exit(0)
time.sleep(0.1)`,
		},
		{
			name:   "a fork bomb that does not end",
			shared: "processes are bounded by the node's podPidsLimit there; by the runner as well only with sandbox.userNamespace, since the kernel counts by user id",
			layer:  "rlimits, per user namespace", without: []string{"rlimits"}, busy: true, timeout: 2,
			code: bomb + `
while going():
    try: os.fork()
    except OSError: pass`,
			want: ends("timeout", "process_limit"),
		},
		{
			name:   "a fork bomb whose processes change their sessions",
			shared: "processes are bounded by the node's podPidsLimit there; by the runner as well only with sandbox.userNamespace, since the kernel counts by user id",
			layer:  "rlimits", without: []string{"rlimits"}, busy: true, timeout: 2,
			code: bomb + `
while going():
    try:
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except OSError: pass`,
			want: ends("timeout", "process_limit"),
		},
		{
			name:   "300 processes",
			shared: "processes are bounded by the node's podPidsLimit there; by the runner as well only with sandbox.userNamespace, since the kernel counts by user id",
			layer:  "rlimits", without: []string{"rlimits"}, busy: true,
			code: `
made = 0
try:
    for made in range(300):
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
    could("have 300 processes")
except BlockingIOError: pass
if made > MOST or made < 32: could("have %d processes" % made)`,
		},
		{
			name:   "300 threads",
			gvisor: "its kernel bounds no processes; the pod's memory does, and the node sees threads of gVisor's only",
			layer:  "rlimits", without: []string{"rlimits"},
			code: `
try:
    for i in range(300): threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
    could("have 300 threads")
except RuntimeError: pass`,
		},
	}
}

// bystander is a process of this machine, of the same user as programs are.
func bystander(t *testing.T, _ target) (map[string]string, func() string) {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"BYSTANDER": strconv.Itoa(cmd.Process.Pid)}, func() string {
		err := cmd.Process.Kill()
		cmd.Wait()
		if err != nil {
			return "the machine's process has ended: " + err.Error()
		}
		return ""
	}
}

// secret is a variable of the service's environment.
func secret(t *testing.T, _ target) (map[string]string, func() string) {
	t.Helper()
	if os.Getenv("ESCAPE_SECRET") != serviceSecret {
		t.Fatal("there is no secret to be found")
	}
	backwards := []byte(serviceSecret)
	slices.Reverse(backwards)
	return map[string]string{"WORD": string(backwards)}, func() string { return "" }
}

// noneLeft wants that nothing with the mark runs once the sandbox is gone.
func noneLeft(*testing.T, target) (map[string]string, func() string) {
	mark := fmt.Sprintf("1234.%d", time.Now().UnixNano())
	return map[string]string{"MARK": mark}, func() string {
		left := leftRunning(mark)
		for _, pid := range left { // ours
			if n, err := strconv.Atoi(pid); err == nil {
				if p, err := os.FindProcess(n); err == nil {
					p.Kill()
				}
			}
		}
		if len(left) > 0 {
			return fmt.Sprintf("the processes %v have outlived their sandbox", left)
		}
		return ""
	}
}
