package local

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The end of an interpreter is told at once, at whatever moment it comes: here
// at the last one before the zygote waits, when no call is there to interrupt.
func TestDeathBeforeTheWaitIsTold(t *testing.T) {
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
import os, select, signal, socket, sys, threading
import importlib.util
spec = importlib.util.spec_from_file_location("zygote", sys.argv[1])
zygote = importlib.util.module_from_spec(spec)
spec.loader.exec_module(zygote)

child = os.fork()
if child == 0:
    signal.pause()

class Late:
    """Waits as select.poll does, but first the child dies."""
    def __init__(self):
        self.real = real()
        self.register = self.real.register
    def poll(self):
        global child
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            child = 0
        return self.real.poll()

real, select.poll = select.poll, Late
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

def listen():
    print(ours.recv(64), flush=True)
    ours.close()

threading.Thread(target=listen).start()
z = zygote.Zygote.__new__(zygote.Zygote)
z.channel, z.layers, z.running = theirs, (), {child: b"12345678"}
z.proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
z.serve()
`, filepath.Join(dir, "__main__.py"))
	cmd.Dir = "/"
	cmd.Env = []string{"PYTHONPATH=" + dir + ":" + boot, "PYTHONDONTWRITEBYTECODE=1"}
	out, err := cmd.CombinedOutput()
	if want := `b'E12345678\t\x00\x00\x00'`; err != nil || string(bytes.TrimSpace(out)) != want {
		t.Errorf("got %s, %v; want %s", out, err, want)
	}
}
