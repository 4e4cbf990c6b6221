package cases

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// R13: with all cores busy and memory near its limit, health still answers and
// the kill comes in time.
func TestR13EverythingBusy(t *testing.T) {
	done := make(chan *answer)
	go func() {
		done <- shared.ask(t, request{Timeout: 2, Code: `import os
hold = bytearray(os.urandom(1 << 20)) * 400
for _ in range(40):
    if os.fork() == 0:
        os.setsid()
        while True: pass
while True: pass`})
	}()
	var slowest time.Duration
	for {
		select {
		case a := <-done:
			if a.Outcome != "timeout" || a.took > 4*time.Second {
				t.Errorf("outcome %s after %s: %s", a.Outcome, a.took, a.Reason)
			}
			if slowest > time.Second {
				t.Errorf("health took %s", slowest)
			}
			shared.works(t)
			return
		case <-time.After(100 * time.Millisecond):
			begun := time.Now()
			res, err := http.Get(shared.url + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("health is %d", res.StatusCode)
			}
			slowest = max(slowest, time.Since(begun))
		}
	}
}

// R14: memory that runs out has a name, and the output before it is kept.
func TestR14OutOfMemory(t *testing.T) {
	f := func(code string) {
		t.Helper()
		a := shared.ask(t, request{Code: tellNamespace + code, Timeout: 20})
		if a.Outcome != "out_of_memory" || a.ExitCode == 0 || !strings.Contains(a.Reason, "MiB") {
			t.Errorf("%q: outcome %s, exit code %d, %s", code, a.Outcome, a.ExitCode, a.Reason)
		}
		shared.gone(t, a.Stdout, time.Second)
		shared.works(t)
	}
	// At once.
	f("x = bytearray(10**10)")
	// Slowly, in a child.
	f(`import time
if os.fork() == 0:
    hold = []
    while True:
        hold.append(bytearray(b"x") * (8 << 20))
        time.sleep(0.005)
os.wait()
time.sleep(1)`)
}

// R15: a full disk has a name, and is the program's own.
func TestR15FullDisk(t *testing.T) {
	f := func(code string, outcomes ...string) {
		t.Helper()
		a := shared.ask(t, request{Code: code, Timeout: 30})
		named := false
		for _, o := range outcomes {
			named = named || a.Outcome == o
		}
		if !named {
			t.Errorf("%q: outcome %s, want one of %v: %s %s", code, a.Outcome, outcomes, a.Reason, a.Stderr)
		}
		if a := shared.run(t, "print(len(open('f', 'wb').name), open('/tmp/f', 'wb').write(b'x' * (64 << 20)))"); a.Stdout != "1 67108864\n" {
			t.Errorf("after %q the neighbour's disk: %+v", code, a)
		}
	}
	// More than memory, in one piece.
	f(`open("/tmp/x", "wb").write(b"0" * 2**33)`, "out_of_memory", "disk_full")
	// More than the disk, in small pieces.
	f("f = open('/tmp/x', 'wb')\nwhile True: f.write(b'0' * 65536)", "disk_full")
	// In the working directory, and in shared memory.
	f("f = open('x', 'wb')\nwhile True: f.write(b'0' * 65536)", "disk_full")
	f("f = open('/dev/shm/x', 'wb')\nwhile True: f.write(b'0' * 65536)", "disk_full")
	// A million small files.
	million := []string{"disk_full"}
	if shared.here() == 0 {
		million = append(million, "out_of_memory") // a pod's volume counts no files, only their memory
	}
	f("for i in range(10**6): open('/tmp/%d' % i, 'w').close()", million...)
	// The program sees the reason and can go on.
	a := shared.run(t, `import errno
try:
    f = open("/tmp/x", "wb", buffering=0)
    while True: f.write(b"0" * (1 << 20))
except OSError as e:
    print(errno.errorcode[e.errno])`)
	if a.Stdout != "ENOSPC\n" || a.Outcome != "ok" {
		t.Errorf("%+v", a)
	}
}

// R16: processes and threads are bounded, and real thread pools fit.
func TestR16ProcessesAndThreads(t *testing.T) {
	f := func(code, outcome, stdout string) {
		t.Helper()
		a := shared.ask(t, request{Code: code, Timeout: 20})
		if a.Outcome != outcome || a.Stdout != stdout || a.took > 10*time.Second {
			t.Errorf("%q: outcome %s, stdout %q, after %s: %s %s", code, a.Outcome, a.Stdout, a.took, a.Reason, a.Stderr)
		}
		shared.works(t)
	}
	// A fork bomb.
	f("import os\nwhile True: os.fork()", "process_limit", "")
	// Threads.
	f("import threading, time\nfor _ in range(5000): threading.Thread(target=time.sleep, args=(30,), daemon=True).start()", "process_limit", "")
	// numpy in many threads, and its own pool.
	f(`import numpy, concurrent.futures
a = numpy.eye(200)
with concurrent.futures.ThreadPoolExecutor(32) as pool:
    print(sum(int((a @ a).sum()) for _ in pool.map(lambda _: a @ a, range(64))))`, "ok", "12800\n")
}
