package escape

import (
	"fmt"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

type result = wire.Result

func contains(text, part string) bool { return strings.Contains(text, part) }

// runnerRows go for the one socket between a program and its runner. A program
// may lie about itself; it cannot break the runner, nor delay the answer.
func runnerRows() []row {
	const layer = "the runner, which bounds and checks all it reads"
	return []row{
		{
			name: "the runner's socket closed", layer: layer, outside: true,
			code: "print('held', flush=True)\nos.close(3)\nos._exit(7)", want: exits(7),
		},
		{
			name: "all descriptors closed", layer: layer, outside: true,
			code: "os.closerange(0, 100)\nos._exit(5)", want: exits(5),
		},
		{
			name: "outputs closed and the program goes on", layer: layer, outside: true, timeout: 1,
			code: "os.closerange(0, 100)\nwhile True: time.sleep(1)", want: ends(wire.Timeout),
		},
		{
			name: "garbage on the runner's socket", layer: layer, outside: true, timeout: 2,
			code: "os.write(3, b'\\xff' * 60000)\nos._exit(6)", want: exits(6),
		},
		{
			name: "a frame of 4 GiB", layer: layer, outside: true, timeout: 3,
			code: `
def feed():
    while True: os.write(3, b"{" * 65536)
os.write(3, b"\xff\xff\xff\xff")
threading.Thread(target=feed, daemon=True).start()
time.sleep(0.5)
os._exit(4)`, want: exits(4),
		},
		{
			name: "a record in the depth", layer: layer, outside: true, timeout: 3,
			code: `
body = b"[" * 900000
os.write(3, struct.pack(">I", len(body)))
s = socket.fromfd(3, 1, 1); s.sendall(body)
os._exit(4)`, want: exits(4),
		},
		{
			name: "a forged record", layer: layer, outside: true,
			// It is the program's own word about itself: true or not, it harms nobody.
			code: `
body = b'{"exit_code": 99999999, "result": "\\u0000\\ud800", "errors": [{"type": "X\\nY", "bases": ["MemoryError"], "errno": 28}]}'
os.write(3, struct.pack(">I", len(body)) + body)
time.sleep(30)`,
			want: func(r *result) string {
				if r.DurationMS > 2000 || r.ExitCode != 99999999&0xff || strings.ContainsRune(r.Reason, '\n') || strings.Contains(r.Reason, "X\nY") {
					return describe(r) + r.Reason
				}
				return ""
			},
		},
		{
			name: "two records", layer: layer, outside: true,
			code: `
def say(code):
    body = b'{"exit_code": %d}' % code
    os.write(3, struct.pack(">I", len(body)) + body)
if os.fork() == 0:
    say(1)
    os._exit(0)
os.wait()
say(2)
os._exit(3)`, want: exits(1),
		},
		{
			name: "a child that ends like the program", layer: layer, outside: true,
			code: "if os.fork() == 0: sys.exit(9)\nos.wait()", want: held,
		},
		{
			name: "everything replaced", layer: layer, outside: true,
			code: `
import builtins, json, atexit, gc, traceback, io
print("held", flush=True)
def nothing(*a, **k): raise SystemExit(77)
for module in (json, os, struct, gc, threading, traceback, signal, sys, builtins):
    for name in list(vars(module)):
        if callable(getattr(module, name)) and not name.startswith("__") and name not in ("getattr", "setattr", "callable", "list", "vars", "SystemExit"):
            try: setattr(module, name, nothing)
            except BaseException: pass
sys.stdout = sys.stderr = None`,
			want: func(r *result) string {
				if !strings.HasPrefix(r.Stdout, "held\n") || r.DurationMS > 9000 {
					return describe(r)
				}
				return ""
			},
		},
		{
			name: "its own end put off", layer: "the deadline", outside: true, timeout: 1,
			code: `
import atexit
class A:
    def __del__(self):
        while True: pass
keep = A()
for s in range(1, 65):
    try: signal.signal(s, lambda *a: None)
    except (OSError, ValueError): pass
atexit.register(lambda: time.sleep(60))
threading.Thread(target=time.sleep, args=(60,)).start()
threading.Thread(target=sys.exit, args=(3,)).start()`, want: ends(wire.Timeout),
		},
		{
			name: "the runner's signal taken over", layer: "the deadline", outside: true, timeout: 1,
			code: `
signal.signal(signal.SIGRTMAX, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True: pass`, want: ends(wire.Timeout),
		},
		{
			name: "stopped by itself", layer: "the deadline", outside: true, timeout: 1,
			code: "os.kill(os.getpid(), signal.SIGSTOP)", want: ends(wire.Timeout),
		},
		{
			name: "1 GiB of output", layer: layer, outside: true, busy: true, timeout: 30,
			code: "b = b'x' * 65536\nfor _ in range(16384): os.write(1, b)\nos._exit(0)",
			want: func(r *result) string {
				if r.Outcome != wire.OK || r.StdoutBytes != 1<<30 || len(r.Stdout) > 300<<10 {
					return fmt.Sprintf("%d bytes written, %d kept, outcome %s", r.StdoutBytes, len(r.Stdout), r.Outcome)
				}
				return ""
			},
		},
		{
			name: "descriptors sent to the runner", layer: layer, outside: true,
			code: `
import array
s = socket.fromfd(3, 1, 1)
for _ in range(50): s.sendmsg([b"\0"], [(1, 1, array.array("i", [0] * 250))])
os._exit(8)`,
			want: func(r *result) string {
				if r.ExitCode != 8 && !strings.Contains(r.Stderr, "Too many references") {
					return describe(r)
				}
				return ""
			},
		},
	}
}

// exits wants this end, at once.
func exits(code int) func(*result) string {
	return func(r *result) string {
		if r.ExitCode != code || r.DurationMS > 2500 {
			return describe(r)
		}
		return ""
	}
}
