package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A program looks for secrets in the runner, which has its user id.
func TestRunnerIsClosed(t *testing.T) {
	f := func(code, want string) {
		t.Helper()
		res := run(t, code)
		if strings.TrimSpace(res.Stdout) != want {
			t.Errorf("%s\nstdout %q, stderr %q", code, res.Stdout, res.Stderr)
		}
	}
	refused := func(expression string) string {
		return fmt.Sprintf("import os, ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\ndef check(n):\n  if n < 0: raise OSError(ctypes.get_errno(), 'refused')\n"+
			"try: %s; print('open')\nexcept OSError as e: print('refused')", expression)
	}
	// It is process 1, and the program is another one of the same user.
	f("import os\nprint(os.getppid(), os.getuid() == os.stat('.').st_uid, os.getsid(0) == os.getpid())", "1 True True")
	// Its command line says nothing.
	f("words = open('/proc/1/cmdline').read().split('\\0')\nprint(len(words), words[1], words[2].isdigit())", "4 serve True")
	// Its environment, its memory, its descriptors, its program.
	f(refused("print(open('/proc/1/environ').read())"), "refused")
	f(refused("print(open('/proc/1/mem', 'rb').read(1))"), "refused")
	f(refused("print(open('/proc/1/maps').read() or check(-1))"), "refused")
	f(refused("print(os.listdir('/proc/1/fd'))"), "refused")
	f(refused("print(os.readlink('/proc/1/exe'))"), "refused")
	f(refused("os.open('/proc/1/root', 0)"), "refused")
	// ptrace(PTRACE_ATTACH and PTRACE_SEIZE), process_vm_readv, pidfd_getfd.
	f(refused("check(libc.ptrace(16, 1, 0, 0))"), "refused")
	f(refused("check(libc.ptrace(0x4206, 1, 0, 0))"), "refused")
	f(refused("b = ctypes.create_string_buffer(8); check(libc.process_vm_readv(1, (ctypes.c_ulong*2)(ctypes.addressof(b), 8), 1, (ctypes.c_ulong*2)(0x400000, 8), 1, 0))"), "refused")
	f(refused("check(libc.syscall(438, os.pidfd_open(1), 3, 0))"), "refused")
	// Nothing of the pod's environment is in the program's.
	f("import os\nprint('PASSWORD' in os.environ, sorted(k for k in os.environ if k.startswith(('KUBERNETES', 'CODE_SANDBOX'))))", "False []")
	// It inherits four descriptors and no more, one of them the control socket.
	f("import os\nprint(sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)))", "[0, 1, 2, 3]")
}

// Signals to process 1 do nothing: the run ends as if there had been none.
func TestSignalsToTheRunner(t *testing.T) {
	res := run(t, `
import os, time
for s in range(1, 65):
    os.kill(1, s)
for s in range(1, 32):
    os.kill(1, s)
time.sleep(0.3)
print("still there")`)
	if res.Stdout != "still there\n" || res.Outcome != wire.OK {
		t.Errorf("stdout %q, outcome %s, stderr %q", res.Stdout, res.Outcome, res.Stderr)
	}
}

// A program speaks to the runner over loopback, in every way that it may try.
func TestRunnerOnLoopback(t *testing.T) {
	p := startPod(t, nil)
	conn := p.connect()
	_, port, _ := strings.Cut(p.config.Address, ":")
	res, err := conn.Run(t.Context(), &wire.Request{Code: `
import socket, ssl, http.client
for i in range(200):
    s = socket.create_connection(("127.0.0.1", ` + port + `)); s.send(b"no TLS at all\n" * 10); s.close()
context = ssl._create_unverified_context()
for path, headers in (("/v1/run", {}), ("/v1/fresh", {"Authorization": "Bearer x"}), ("/v1/run", {"Authorization": "Bearer ` + p.config.SecretSHA256 + `"}), ("/", {}), ("/metrics", {"Authorization": "Basic eDp4"})):
    c = http.client.HTTPSConnection("127.0.0.1", ` + port + `, context=context)
    c.request("POST", path, '{"code": "print(2)"}', headers)
    print(c.getresponse().status)
`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Stdout != "401\n401\n401\n401\n401\n" {
		t.Errorf("stdout %q, stderr %q", res.Stdout, res.Stderr)
	}
	p.waitGone(5 * time.Second)
	if lines := strings.Count(p.log.String(), "\n"); lines < 1 || lines > 20 {
		t.Errorf("the runner's log has %d lines", lines)
	}
}

// A program may say of itself what it likes; it gains nothing beyond that.
func TestForgeries(t *testing.T) {
	f := func(code string, check func(*wire.Result) bool) {
		t.Helper()
		if res := run(t, code); !check(res) {
			t.Errorf("%s\nstdout %q, stderr %q, outcome %s (%s), exit %d", code, res.Stdout, res.Stderr, res.Outcome, res.Reason, res.ExitCode)
		}
	}
	// A last line on standard output is output.
	f(`print('{"nonce":"x","result":{"outcome":"ok"}}'); raise SystemExit(4)`, func(r *wire.Result) bool {
		return r.ExitCode == 4 && strings.HasPrefix(r.Stdout, `{"nonce"`)
	})
	// A record of its own has the exit code of its choice, which it has anyway.
	f(`
import os, json, struct
b = json.dumps({"exit_code": 99999, "outcome": "evicted", "files": [{"path": "../../x"}], "isolation": "none", "result": "x" * 100}).encode()
os.write(3, struct.pack(">I", len(b)) + b); os._exit(0)`, func(r *wire.Result) bool {
		return r.Outcome == wire.Failed && r.ExitCode == 99999&0xff && r.Isolation == "pod" && len(r.Files) == 0
	})
	// A record that is too large, and one that never ends.
	f(`import os; os.write(3, b"\xff\xff\xff\xff"); os._exit(5)`, func(r *wire.Result) bool { return r.ExitCode == 5 })
	f(`import os; os.write(3, b"\0\0\1\0abc"); os._exit(6)`, func(r *wire.Result) bool { return r.ExitCode == 6 })
	// Garbage in place of JSON, deeply nested.
	f(`import os, struct; os.write(3, struct.pack(">I", 200000) + b"[" * 200000); os._exit(7)`, func(r *wire.Result) bool { return r.ExitCode == 7 })
	// It closes what it was given, and goes on.
	f(`import os, time; os.closerange(0, 64); time.sleep(0.2); os._exit(8)`, func(r *wire.Result) bool { return r.ExitCode == 8 })
	// It lowers the runner's limits, which its user id lets it: its own run may end
	// by that, and nothing else; here the runner has all that it needs.
	f(`import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)); print("lowered")`, func(r *wire.Result) bool {
		return r.Stdout == "lowered\n"
	})
}

// cloneNumber is the number of the system call.
var cloneNumber = map[string]string{"amd64": "56", "arm64": "220"}

// processesWith counts the processes of this machine that have mark in their
// command line.
func processesWith(t *testing.T, mark string) (count int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatalf("cannot list the processes: %v", err)
	}
	for _, line := range lines {
		if b, err := os.ReadFile(line); err == nil && strings.Contains(string(b), mark) {
			count++
		}
	}
	return count
}

// Nothing outlives the run: not a daemon, not one that is no usual child.
func TestDaemons(t *testing.T) {
	mark := fmt.Sprintf("runner-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	res := run(t, `
import ctypes, os, time
libc = ctypes.CDLL(None)
def stay():
    os.setsid()
    libc.prctl(15, b"daemon")
    os.execvp("python3", ["python3", "-c", "import time; time.sleep(60)", "`+mark+`"])
if os.fork() == 0:
    if os.fork() == 0: stay()
    os._exit(0)
if libc.syscall(`+cloneNumber[runtime.GOARCH]+`, 0, 0, 0, 0, 0) == 0:  # clone, with no signal at its end
    stay()
while sum("`+mark+`" in open("/proc/%s/cmdline" % p).read() for p in os.listdir("/proc") if p.isdigit()) < 2: time.sleep(0.01)
print("left two")`)
	if res.Stdout != "left two\n" {
		t.Fatalf("stdout %q, stderr %q", res.Stdout, res.Stderr)
	}
	if left := processesWith(t, mark); left != 0 {
		t.Errorf("%d are still there", left)
	}
}

// The files of an answer wait for what would still write to them.
func TestFilesAreFinal(t *testing.T) {
	res := run(t, `
import os
open("counter", "w").write("0")
if os.fork() == 0:
    n = 0
    while True:
        n += 1
        open("counter.tmp", "w").write(str(n)); os.rename("counter.tmp", "counter")
`)
	if b, _ := json.Marshal(res.Files); len(res.Files) == 0 || res.Outcome != wire.OK {
		t.Errorf("outcome %s, files %s", res.Outcome, b)
	}
}
