package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func newBare(t *testing.T) *Bare {
	t.Helper()
	python, err := LookPython(t.Context(), systemPython)
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewBare(BareOptions{Python: python, MemoryBytes: wire.DefaultLimits().MemoryBytes, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(d.folder.path); !os.IsNotExist(err) {
			t.Errorf("the folder %s is left: %v", d.folder.path, err)
		}
	})
	return d
}

// runBare runs code in a sandbox of its own, which is destroyed before it returns.
func runBare(t *testing.T, d *Bare, template pool.Template, req *wire.Request) *wire.Result {
	t.Helper()
	s, err := d.Start(t.Context(), template)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(t.Context(), s.ID()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.(*bareSandbox).folder); !os.IsNotExist(err) {
		t.Errorf("the folder of %s is left: %v", s.ID(), err)
	}
	return res
}

func TestBareConforms(t *testing.T) {
	open := func(t *testing.T) pool.Driver { return newBare(t) }
	pooltest.Conformance(t, open, template(), pooltest.SharedMachine)
}

// Without a cgroup, the address space is what is bounded.
func TestBareConformsWithoutCgroup(t *testing.T) {
	open := func(t *testing.T) pool.Driver { return withoutCgroup(newBare(t)) }
	pooltest.Conformance(t, open, template(), pooltest.SharedMachine)
}

func withoutCgroup(d *Bare) *Bare {
	if d.cgroups != nil {
		d.cgroups.close()
		d.cgroups = nil
	}
	return d
}

// What a driver without isolation still bounds.
func TestBareBounds(t *testing.T) {
	f := func(d *Bare, code string, outcome wire.Outcome, stdout string) *wire.Result {
		t.Helper()
		res := runBare(t, d, template(), &wire.Request{Code: code, TimeoutSeconds: 20})
		if res.Outcome != outcome || res.Stdout != stdout || res.Isolation != "none" {
			t.Errorf("%q: outcome %q (%s), isolation %q, stdout %q, stderr %q", code, res.Outcome, res.Reason, res.Isolation, res.Stdout, res.Stderr)
		}
		return res
	}
	d := newBare(t)
	without := withoutCgroup(newBare(t))
	const hog = "b = bytearray(700 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\n"
	// Memory, by a cgroup where there is one.
	f(d, hog, wire.OutOfMemory, "")
	// Memory, by address space.
	f(without, hog, wire.OutOfMemory, "")
	// Some memory is no offence.
	f(without, "b = bytearray(300 << 20)\nprint(len(b))", wire.OK, "314572800\n")
	// Threads have stacks, which are address space.
	f(without, "import threading\nfor _ in range(20): threading.Thread(target=print, args=('x',)).start()", wire.OK, strings.Repeat("x\n", 20))
	// The number of open files.
	f(d, "import os\ntry:\n    while True: os.open('/dev/null', 0)\nexcept OSError as e: print(e.errno)", wire.OK, "24\n")
	// The size of one file.
	f(d, "import signal\ntry:\n    f = open('f', 'wb')\n    f.truncate(300 << 20)\nexcept OSError as e: print(e.errno)", wire.OK, "27\n")
	// No descriptor but its own four.
	f(d, "import os\nprint([n for n in range(200) if os.path.exists('/proc/self/fd/%d' % n)])", wire.OK, "[0, 1, 2, 3]\n")
	// Files come back.
	if res := f(d, "open('out.txt', 'w').write('text')", wire.OK, ""); len(res.Files) != 1 || res.Files[0].Content != "text" {
		t.Errorf("files are %+v", res.Files)
	}
	// What is refused is refused by the machine: no sandbox denied it.
	if res := f(d, "import no_such_module", wire.Failed, ""); len(res.Denied) != 0 || res.Reason != "The program ended with an uncaught ModuleNotFoundError." {
		t.Errorf("denied %v: %s", res.Denied, res.Reason)
	}
	// A folder that its owner cannot read or write goes away, too.
	f(d, "import os\nos.makedirs('a/b')\nos.chmod('a/b', 0)\nos.chmod('a', 0)", wire.OK, "")
}

// Whatever a program leaves running ends with its sandbox, however it hides.
func TestBareKillsAll(t *testing.T) {
	// All write their pid, then wait.
	const wait = "    open('%s/%%d' %% os.getpid(), 'w').close()\n    time.sleep(60)\n    os._exit(0)\n"
	f := func(d *Bare, n int, code string) {
		t.Helper()
		dir := t.TempDir()
		code = "import os, time, subprocess, sys\n" + fmt.Sprintf(code, fmt.Sprintf(wait, dir)) +
			fmt.Sprintf("\nwhile len(os.listdir('%s')) < %d: time.sleep(0.01)\n", dir, n)
		res := runBare(t, d, template(), &wire.Request{Code: code, TimeoutSeconds: 20})
		if res.Outcome != wire.OK {
			t.Errorf("%q: %s %s", code, res.Reason, res.Stderr)
		}
		pids, err := os.ReadDir(dir)
		if err != nil || len(pids) != n {
			t.Errorf("%q: %d processes ran, %v", code, len(pids), err)
		}
		for _, entry := range pids {
			if pid, _ := strconv.Atoi(entry.Name()); alive(pid) {
				t.Errorf("%q: process %d is alive", code, pid)
			}
		}
	}
	d := newBare(t)
	without := withoutCgroup(newBare(t))
	// A child.
	f(without, 1, "if os.fork() == 0:\n%s")
	// A child in a session of its own.
	f(without, 1, "if os.fork() == 0:\n    os.setsid()\n%s")
	// A daemon: no parent, no session.
	f(without, 1, "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n%s")
	// Many.
	f(without, 30, "for _ in range(30):\n  if os.fork() == 0:\n%s")
	if d.cgroups == nil {
		t.Log("no cgroup can be made here: a daemon with another environment would not be found")
		return
	}
	// A daemon with another environment, in the cgroup.
	f(d, 1, "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n"+
		"    os.execve(sys.executable, [sys.executable, '-c', '''import os, time\nif 1:\n%s'''], {})")
}

// alive says whether there is such a process that has not ended.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	p, ok := parseStat(b)
	return ok && !p.dead
}

// A module that is not there is named.
func TestBarePreloadMissing(t *testing.T) {
	d := newBare(t)
	missing := template()
	missing.Preload = []string{"no_such_module"}
	_, err := d.Start(t.Context(), missing)
	if e, ok := errors.AsType[*ImportError](err); !ok || e.Module != "no_such_module" || !strings.Contains(e.Cause, "ModuleNotFoundError") {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(d.folder.path); err != nil || len(entries) != 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
}

// What a killed service left is ended and removed, by the next one of either
// kind; what a living one has is not.
func TestBareSweep(t *testing.T) {
	t.Run("by bare", func(t *testing.T) { sweepsBare(t, func() { newBare(t) }) })
	t.Run("by namespaces", func(t *testing.T) { sweepsBare(t, func() { newDriver(t, nil) }) })
}

func sweepsBare(t *testing.T, next func()) {
	living := newBare(t)
	s, err := living.Start(t.Context(), template())
	if err != nil {
		t.Fatal(err)
	}
	stale, err := os.MkdirTemp(os.TempDir(), barePrefix)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(stale, "sb-x"), 0o700); err != nil {
		t.Fatal(err)
	}
	left := exec.Command("sleep", "60")
	left.Env = []string{bareMark + "=" + filepath.Join(stale, "sb-x")}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Second, func() { _ = left.Process.Kill() })
	next()
	if err := left.Wait(); left.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the process that was left ended with %v", err)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the stale folder is still there: %v", err)
	}
	res, err := s.Run(t.Context(), &wire.Request{Code: "print(1)", TimeoutSeconds: 20}, nil)
	if err != nil || res.Stdout != "1\n" {
		t.Errorf("the living service's sandbox answers %+v, %v", res, err)
	}
}

// Which processes are a sandbox's.
func TestFamily(t *testing.T) {
	f := func(leader int, all []process, want ...int) {
		t.Helper()
		var got []int
		for _, p := range family(all, leader) {
			got = append(got, p.pid)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	// The leader, its session, a child that left the session, and its child.
	f(10, []process{{pid: 10, parent: 5, session: 10}, {pid: 11, parent: 1, session: 10}, {pid: 12, parent: 10, session: 12}, {pid: 9, parent: 12, session: 9}, {pid: 20, parent: 5, session: 5}}, 10, 11, 12, 9)
	// Once the leader's pid is free, it says nothing.
	f(0, []process{{pid: 10, parent: 5, session: 10}, {pid: 11, parent: 10, session: 0}})
	// A mark is enough, and its children come along.
	f(0, []process{{pid: 30, parent: 1, session: 30, marked: true}, {pid: 31, parent: 30, session: 31}}, 30, 31)
	// The dead need no kill, but their children do.
	f(10, []process{{pid: 10, parent: 5, session: 10, dead: true}, {pid: 11, parent: 10, session: 11}}, 11)
	// Never process 1, nor this one.
	f(10, []process{{pid: 10, session: 10}, {pid: 1, session: 10}, {pid: os.Getpid(), session: 10}}, 10)
}

func TestParseStat(t *testing.T) {
	f := func(line string, want process, ok bool) {
		t.Helper()
		if got, good := parseStat([]byte(line)); got != want || good != ok {
			t.Errorf("%q: got %+v, %v", line, got, good)
		}
	}
	const rest = " 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1000 200"
	// A plain one.
	f("42 (python3) S 7 42 40"+rest, process{pid: 42, parent: 7, session: 40, started: 777}, true)
	// A name made to mislead.
	f("42 (a) S 1 1 (b) Z 7 42 40"+rest, process{pid: 42, parent: 7, session: 40, started: 777, dead: true}, true)
	// Cut short.
	f("42 (python3) S 7", process{}, false)
	// Nothing.
	f("", process{}, false)
}
