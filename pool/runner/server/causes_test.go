package server_test

import (
	"slices"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// What a program failed by is named where it is known, and nothing else is blamed.
func TestCauses(t *testing.T) {
	f := func(code string, outcome wire.Outcome, denied ...wire.Denial) {
		t.Helper()
		res := run(t, code)
		if res.Outcome != outcome || !slices.Equal(res.Denied, denied) {
			t.Errorf("%s:\noutcome %s, denied %v (%s), stderr %q", code, res.Outcome, res.Denied, res.Reason, res.Stderr)
		}
	}
	// What it came from counts, unless the program says that it does not.
	f("try:\n  import nope\nexcept ImportError as e:\n  raise ValueError('x') from e", wire.Failed, wire.DeniedPackage)
	f("try:\n  import nope\nexcept ImportError:\n  raise ValueError('x')", wire.Failed, wire.DeniedPackage)
	f("try:\n  import nope\nexcept ImportError:\n  raise ValueError('x') from None", wire.Failed)
	// So does what a group holds; without groups, one is as good as another.
	f("class G(Exception): pass\ntry: G = ExceptionGroup\nexcept NameError: raise ModuleNotFoundError('x', name='x')\n"+
		"raise G('x', [ValueError(1), ModuleNotFoundError('x', name='x')])", wire.Failed, wire.DeniedPackage)
	// A class of the program's own is not the one that it is named after.
	f("class MemoryError(Exception): pass\nraise MemoryError", wire.Failed)
	f("class gaierror(Exception): pass\nraise gaierror", wire.Failed)
	f("class Mine(MemoryError): pass\nraise Mine", wire.OutOfMemory)
	// A file that is no program.
	f("import subprocess\nopen('tool.py', 'w').close()\nsubprocess.run(['./tool.py'])", wire.Failed)
	// Numbers that are none of the system's.
	f("raise OSError(10 ** 40, 'x')", wire.Failed)
	f("try:\n  import nope\nexcept ImportError:\n  raise OSError(True, 'x')", wire.Failed, wire.DeniedPackage)
}
