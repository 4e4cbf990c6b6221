package local

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The end of an interpreter is told at once, also when its signal interrupts
// nothing, as one just before the zygote waits does not: here another thread takes it.
func TestDeathThatInterruptsNothingIsTold(t *testing.T) {
	dir, err := filepath.Abs("zygote")
	if err != nil {
		t.Fatal(err)
	}
	boot, err := filepath.Abs("../runner/python")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", "-c", `
import importlib.util, os, select, signal, socket, sys, threading, time
spec = importlib.util.spec_from_file_location("zygote", sys.argv[1])
zygote = importlib.util.module_from_spec(spec)
spec.loader.exec_module(zygote)

alive, keep = os.pipe()
child = os.fork()
if child == 0:
    os.close(keep)
    os.read(alive, 1)  # ends with us
    os._exit(0)

waits = threading.Event()

def kill():
    waits.wait()
    time.sleep(0.1)
    os.kill(child, signal.SIGKILL)

class Alone:
    """Waits as select.poll does; a signal comes to another thread."""
    def __init__(self):
        self.real = real()
        self.register = self.real.register
    def poll(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
        waits.set()
        return self.real.poll()

real, select.poll = select.poll, Alone
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

def listen():
    print(ours.recv(64), flush=True)
    ours.close()

for target in (kill, listen):
    threading.Thread(target=target, daemon=True).start()
z = zygote.Zygote.__new__(zygote.Zygote)
z.channel, z.layers, z.running = theirs, (), {child: b"12345678"}
z.proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
z.serve()
`, filepath.Join(dir, "__main__.py"))
	cmd.WaitDelay = time.Second
	cmd.Dir = "/"
	cmd.Env = []string{"PYTHONPATH=" + dir + ":" + boot, "PYTHONDONTWRITEBYTECODE=1"}
	out, err := cmd.CombinedOutput()
	if want := `b'E12345678\t\x00\x00\x00'`; err != nil || string(bytes.TrimSpace(out)) != want {
		t.Errorf("got %s, %v; want %s", out, err, want)
	}
}
