package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// What a program prints and how it ends comes back as in local mode.
func TestResults(t *testing.T) {
	f := func(code, stdout string, exit int, outcome wire.Outcome) *wire.Result {
		t.Helper()
		res := run(t, code)
		if res.Stdout != stdout || res.ExitCode != exit || res.Outcome != outcome {
			t.Errorf("%q: stdout %.300q, stderr %.1000q, exit %d, outcome %s (%s)", code, res.Stdout, res.Stderr, res.ExitCode, res.Outcome, res.Reason)
		}
		if res.Isolation != "pod" {
			t.Errorf("its isolation is %q", res.Isolation)
		}
		return res
	}
	// Output, and the value of the last expression.
	if res := f("print(1)\n40+2", "1\n", 0, wire.OK); res.Value == nil || *res.Value != "42" {
		t.Errorf("its value is %v", res.Value)
	}
	// An exception, whose traceback shows the program's own frames only.
	if res := f("def g():\n    1/0\ng()", "", 1, wire.Failed); strings.Contains(res.Stderr, "bootstrap") || !strings.Contains(res.Stderr, "ZeroDivisionError") {
		t.Errorf("its stderr is %q", res.Stderr)
	}
	// Its exit code.
	f("import sys; print('x', end=''); sys.exit(7)", "x", 7, wire.Failed)
	// Its death by a signal of its own.
	f("import os; os.kill(os.getpid(), 9)", "", 137, wire.Killed)
	// It leaves without a word.
	f("import os; os._exit(3)", "", 3, wire.Failed)
}

// What a run is given reaches it: arguments, input, variables, files.
func TestGiven(t *testing.T) {
	stdin := "line\n"
	res := runRequest(t, &wire.Request{
		Code:  "import os, sys\nprint(sys.argv[1:], input(), os.environ['A'], open('d/in.txt').read())",
		Args:  []string{"x", "y z"},
		Stdin: &stdin, Env: map[string]string{"A": "b"},
		Files: []wire.File{{Path: "d/in.txt", Content: "aGk=", Encoding: "base64"}},
	}, nil)
	if res.Stdout != "['x', 'y z'] line b hi\n" {
		t.Errorf("stdout %q, stderr %q", res.Stdout, res.Stderr)
	}
	if len(res.Files) != 0 {
		t.Errorf("what it was given came back: %+v", res.Files)
	}
}

// What a program leaves in its working directory comes back, links do not.
func TestFiles(t *testing.T) {
	res := run(t, `
import os
os.makedirs("out"); open("out/a.csv", "w").write("1,2\n"); open("b.bin", "wb").write(b"\xff\x00")
os.symlink("/etc/passwd", "link"); os.mkfifo("pipe")`)
	got := map[string]string{}
	for _, f := range res.Files {
		got[f.Path] = f.Encoding + " " + f.Content
	}
	if len(got) != 2 || got["out/a.csv"] != "utf-8 1,2\n" || got["b.bin"] != "base64 /wA=" {
		t.Errorf("files %v", got)
	}
	if len(res.FilesOmitted) != 2 {
		t.Errorf("omitted %+v", res.FilesOmitted)
	}
}

// Output arrives while it is written, and is capped while it is read.
func TestOutput(t *testing.T) {
	var streamed strings.Builder
	first := make(chan time.Time, 1)
	res := runRequest(t, &wire.Request{Code: "import time\nprint('a', flush=True); time.sleep(0.6); print('é')"}, func(s wire.Stream, text string) {
		select {
		case first <- time.Now():
		default:
		}
		streamed.WriteString(string(s) + ":" + text)
	})
	if streamed.String() != "stdout:a\nstdout:é\n" || res.Stdout != "a\né\n" {
		t.Errorf("streamed %q, stdout %q", streamed.String(), res.Stdout)
	}
	if early := time.Since(<-first); early < 500*time.Millisecond {
		t.Errorf("the first line came %s before the end", early)
	}
	res = run(t, "import sys\nfor i in range(40): sys.stdout.write('x' * 100000)\nprint('end')")
	if res.StdoutBytes != 4000004 || !res.StdoutTruncated || len(res.Stdout) > limits().OutputBytes+100 || !strings.HasSuffix(res.Stdout, "end\n") {
		t.Errorf("%d bytes, truncated %v, kept %d", res.StdoutBytes, res.StdoutTruncated, len(res.Stdout))
	}
}

// The limits that the runner itself sets, and how a run at one of them ends.
func TestLimits(t *testing.T) {
	// Open files.
	res := run(t, "import os\nn=0\ntry:\n  while True: os.dup(1); n+=1\nexcept OSError: print(400 < n < 512)")
	if res.Stdout != "True\n" {
		t.Errorf("open files: %q %q", res.Stdout, res.Stderr)
	}
	// The size of a file, which is that of its disk.
	res = run(t, "f = open('f', 'wb')\nf.truncate(300 << 20)")
	if res.Outcome != wire.Failed || !strings.Contains(res.Stderr, "File too large") {
		t.Errorf("disk: %s (%s) %s", res.Outcome, res.Reason, res.Stderr)
	}
	// Processes: the pod has a user namespace of its own.
	res = run(t, "import os, time\nwhile True:\n  if os.fork() == 0: time.sleep(60)")
	if res.Outcome != wire.ProcessLimit {
		t.Errorf("processes: %s (%s) %s", res.Outcome, res.Reason, res.Stderr)
	}
	// Core dumps, of which one byte is less than none; new privileges, system calls.
	res = run(t, "import resource\nprint(resource.getrlimit(resource.RLIMIT_CORE), [l.split()[1] for l in open('/proc/self/status') if l.startswith(('NoNewPrivs', 'Seccomp:'))])")
	if res.Stdout != "(1, 1) ['1', '2']\n" {
		t.Errorf("core dumps and privileges: %q %q", res.Stdout, res.Stderr)
	}
}

// A run ends at its deadline, whatever it does, and what it printed comes back.
func TestDeadline(t *testing.T) {
	f := func(code, stdout string) {
		t.Helper()
		began := time.Now()
		res := runRequest(t, &wire.Request{Code: code, TimeoutSeconds: 0.5}, nil)
		if res.Outcome != wire.Timeout || res.ExitCode != 137 || res.Stdout != stdout {
			t.Errorf("outcome %s, exit %d, stdout %q, stderr %q", res.Outcome, res.ExitCode, res.Stdout, res.Stderr)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
	}
	// Buffered output is flushed.
	f("print('a')\nwhile True: pass", "a\n")
	// A program that refuses every signal.
	f("import signal\nfor s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nprint('b', flush=True)\nwhile True: pass", "b\n")
	// One that forks and forks.
	f("import os\nprint('c', flush=True)\nwhile True:\n  try: os.fork()\n  except OSError: pass", "c\n")
}
