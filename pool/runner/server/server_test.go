package server_test

import (
	"strings"
	"testing"

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
