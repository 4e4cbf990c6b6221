package cases

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// R6: the two outputs stay apart, and the exit code is the program's.
func TestR06OutputsStayApart(t *testing.T) {
	a := shared.run(t, "import sys\nprint(1); print(2, file=sys.stderr); raise SystemExit(3)")
	if a.Stdout != "1\n" || a.Stderr != "2\n" || a.ExitCode != 3 || a.Outcome != "error" {
		t.Errorf("%+v", a)
	}
}

// R7: every way to end has its exit code, and a reason in words.
func TestR07WaysToEnd(t *testing.T) {
	f := func(code string, exit int, outcome, stderr, reason string) {
		t.Helper()
		a := shared.run(t, code)
		if a.ExitCode != exit || a.Outcome != outcome || !strings.Contains(a.Stderr, stderr) || !strings.Contains(a.Reason, reason) {
			t.Errorf("%q: exit code %d, outcome %s, reason %q, stderr %q", code, a.ExitCode, a.Outcome, a.Reason, a.Stderr)
		}
	}
	// Past the interpreter, with a code that does not fit.
	f("import os; os._exit(300)", 44, "error", "", "exit code 44")
	// By a signal.
	f("import os; os.kill(os.getpid(), 11)", 139, "killed", "", "signal 11")
	// By an exception.
	f("1/0", 1, "error", "ZeroDivisionError: division by zero", "ZeroDivisionError")
	// With a message.
	f(`import sys; sys.exit("msg")`, 1, "error", "msg\n", "exit code 1")
	// With nothing.
	f("import sys; sys.exit(None)", 0, "ok", "", "exit code 0")
	// By abort.
	f("import os; os.abort()", 134, "killed", "", "signal 6")
	// With a number that no exit code can be, which the interpreter makes 255.
	f("import sys; sys.exit(2**63)", 255, "error", "", "exit code 255")
	f("import sys; sys.exit(-10**30)", 255, "error", "", "exit code 255")
	// With a number that is cut to one that says all is well, as the interpreter does.
	f("import sys; sys.exit(256)", 0, "ok", "", "exit code 0")
	// By an empty pipe: no limit of ours.
	f("import os\nr, w = os.pipe()\nos.set_blocking(r, False)\nos.read(r, 1)", 1, "error", "BlockingIOError", "uncaught BlockingIOError")
	// By KeyboardInterrupt.
	f("raise KeyboardInterrupt", 130, "error", "KeyboardInterrupt", "KeyboardInterrupt")
	// Normally.
	f("pass", 0, "ok", "", "exit code 0")
}

// R8: what was printed before a timeout is in the answer.
func TestR08OutputBeforeATimeout(t *testing.T) {
	f := func(code, stdout string) {
		t.Helper()
		a := shared.ask(t, request{Code: code, Timeout: 1})
		if a.Outcome != "timeout" || a.Stdout != stdout || a.DurationMS > 2000 {
			t.Errorf("%q: outcome %s, stdout %q, after %g ms", code, a.Outcome, a.Stdout, a.DurationMS)
		}
	}
	// Flushed.
	f(`import time; print("hi", flush=True); time.sleep(99)`, "hi\n")
	// Not flushed.
	f(`import time; print("hi"); time.sleep(99)`, "hi\n")
	// In a loop of Python.
	f("print('hi')\nwhile True: pass", "hi\n")
	// In C, where no handler runs: flushed text is kept, the rest may go.
	f(`print("hi", flush=True); print("lost?", end=""); sum(range(10**12))`, "hi\n")
}

// R9: a timeout never looks like a success with nothing to say.
func TestR09ATimeoutIsNoSuccess(t *testing.T) {
	a := shared.ask(t, request{Code: "import time; time.sleep(99)", Timeout: 1})
	if a.Outcome != "timeout" || a.ExitCode == 0 || !strings.Contains(a.Reason, "timeout") || !strings.Contains(a.Reason, "timeout of 1 s") {
		t.Errorf("%+v", a)
	}
}

// R10: a run that needs all but a second of the longest timeout succeeds.
func TestR10AlmostTheLongestTimeout(t *testing.T) {
	s := newService(t, "--timeout", "3s", "--max-timeout", "3s", "--target", "1", "--max", "2")
	a := s.ask(t, request{Code: "import time; time.sleep(2); print('done')", Timeout: 3})
	if a.Outcome != "ok" || a.Stdout != "done\n" {
		t.Errorf("%+v", a)
	}
	body, err := json.Marshal(request{Code: "1", Timeout: 4})
	if err != nil {
		t.Fatal(err)
	}
	if a := s.post(t, body, nil); a.status != http.StatusBadRequest || !strings.Contains(a.Error.Message, "3") {
		t.Errorf("past the longest: %d %+v", a.status, a.Error)
	}
}

// R11: the answer waits for the main program only, and nothing outlives it.
func TestR11WhatWasLeftRunning(t *testing.T) {
	f := func(code string) {
		t.Helper()
		a := shared.run(t, tellNamespace+code)
		if a.ExitCode != 0 || a.Outcome != "ok" || a.DurationMS > 1000 {
			t.Errorf("%q: exit code %d, outcome %s, after %g ms: %s", code, a.ExitCode, a.Outcome, a.DurationMS, a.Stderr)
		}
		shared.gone(t, a.Stdout, time.Second)
	}
	// A child.
	f(`import subprocess; p = subprocess.Popen(["sleep", "60"])`)
	// A child in a session of its own.
	f(`import subprocess; p = subprocess.Popen(["sleep", "60"], start_new_session=True)`)
	// A child's child, both orphaned.
	f(`import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)`)
	// A daemon thread.
	f(`import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()`)
	// One that holds on to the outputs and ignores all signals it can.
	f(`import os, signal, time
if os.fork() == 0:
    for s in range(1, 65):
        try: signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError): pass
    while True: time.sleep(60)`)
}

// R12: without stdin there is the end of it, at once; with one there is that.
func TestR12Stdin(t *testing.T) {
	text := "a\nb"
	f := func(code string, stdin *string, exit int, stdout, stderr string) {
		t.Helper()
		a := shared.ask(t, request{Code: code, Stdin: stdin})
		if a.ExitCode != exit || a.Stdout != stdout || !strings.Contains(a.Stderr, stderr) || a.DurationMS > 2000 {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q, after %g ms", code, a.ExitCode, a.Stdout, a.Stderr, a.DurationMS)
		}
	}
	f("input()", nil, 1, "", "EOFError")
	f("while True: input()", nil, 1, "", "EOFError")
	f("import sys; print(repr(sys.stdin.read()))", &text, 0, "'a\\nb'\n", "")
	f("print(input(), input())", &text, 0, "a b\n", "")
	// More than a pipe holds.
	long := strings.Repeat("line\n", 100_000)
	f("import sys; print(len(sys.stdin.read()))", &long, 0, "500000\n", "")
	// A child has it too.
	f(`import subprocess; subprocess.run(["cat"])`, &text, 0, "a\nb", "")
}

// R18: a program that fails is an answer; a request that fails is an error.
func TestR18TheirFailureAndOurs(t *testing.T) {
	a := shared.run(t, "raise ValueError('theirs')")
	if a.status != http.StatusOK || a.ExitCode == 0 || a.Error != nil {
		t.Errorf("a program that fails: %+v", a)
	}
	f := func(body, word string) {
		t.Helper()
		a := shared.post(t, []byte(body), nil)
		if a.status < 400 || a.Error == nil || a.Error.Code == "" || a.Error.Executed != "no" || !strings.Contains(a.Error.Message, word) {
			t.Errorf("%s: status %d, %+v", body, a.status, a.Error)
		}
		if a.Outcome != "" || a.RunID != "" {
			t.Errorf("%s: an error with a result: %+v", body, a)
		}
	}
	// A field that does not exist.
	f(`{"code": "1", "langage": "python"}`, "langage")
	// A timeout that cannot be.
	f(`{"code": "1", "timeout_seconds": -1}`, "timeout_seconds")
	f(`{"code": "1", "timeout_seconds": 301}`, "timeout_seconds")
	// A file that leaves the working directory.
	f(`{"code": "1", "files": [{"path": "../x", "content": ""}]}`, "../x")
	f(`{"code": "1", "files": [{"path": "/etc/passwd", "content": ""}]}`, "/etc/passwd")
	// A variable that would run code before the program.
	f(`{"code": "1", "env": {"LD_PRELOAD": "x"}}`, "LD_PRELOAD")
	f(`{"code": "1", "env": {"PYTHONSTARTUP": "x"}}`, "PYTHONSTARTUP")
}
