package cases

import (
	"bytes"
	"strings"
	"testing"
)

// R23: what a program leaves in its working directory comes back.
func TestR23Files(t *testing.T) {
	a := shared.ask(t, request{Timeout: 60, Code: `import os
import matplotlib.pyplot as plt
import pandas as pd
plt.plot([1, 2, 3])
pd.DataFrame({"a": [1, 2]}).to_csv("table.csv", index=False)
open("with spaces and é.txt", "w").write("text")
os.makedirs("deep/er")
open("deep/er/f.bin", "wb").write(b"\x00\xff")
os.symlink("/etc/passwd", "link")
os.mkfifo("fifo")
with open("large.bin", "wb") as f:
    f.truncate(100 * 1000 * 1000)`})
	if a.Outcome != "ok" {
		t.Fatalf("%+v", a)
	}
	f := func(path, media string, content []byte) {
		t.Helper()
		got := a.file(path)
		if got == nil {
			t.Errorf("%q is not in the answer; omitted %v", path, a.FilesOmitted)
			return
		}
		b := got.bytes(t)
		if got.MediaType != media || got.Size != int64(len(b)) || !bytes.HasPrefix(b, content) {
			t.Errorf("%q: %s, %d bytes, %.20q", path, got.MediaType, got.Size, b)
		}
	}
	// The figure that was left open.
	f("figure-1.png", "image/png", []byte("\x89PNG\r\n\x1a\n"))
	f("table.csv", "text/csv", []byte("a\n1\n2\n"))
	f("with spaces and é.txt", "text/plain", []byte("text"))
	f("deep/er/f.bin", "application/octet-stream", []byte("\x00\xff"))
	// Named, and not here.
	for path, reason := range map[string]string{"link": "links are not followed", "fifo": "not a regular file", "large.bin": "bytes together"} {
		if a.file(path) != nil || !strings.Contains(a.omitted(path), reason) {
			t.Errorf("%q: omitted because %q", path, a.omitted(path))
		}
	}
	if a.file("main.py") != nil || len(a.Files) != 4 {
		t.Errorf("%d files in the answer", len(a.Files))
	}
}

// R24: Python works as in python main.py.
func TestR24AsInPythonMain(t *testing.T) {
	f := func(code, stdout string) {
		t.Helper()
		a := shared.run(t, code)
		if a.Stdout != stdout || a.Outcome != "ok" || a.Stderr != "" {
			t.Errorf("%q: outcome %s, stdout %q, stderr %s", code, a.Outcome, a.Stdout, a.Stderr)
		}
	}
	f("import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n    print(1)\nasyncio.run(main())", "1\n")
	f("import multiprocessing\ndef f(x): return x * x\nif __name__ == '__main__':\n    with multiprocessing.Pool(2) as p: print(p.map(f, range(4)))", "[0, 1, 4, 9]\n")
	// A worker that imports the program anew.
	f("import multiprocessing\ndef f(x): return x + 1\nif __name__ == '__main__':\n    with multiprocessing.get_context('spawn').Pool(1) as p: print(p.map(f, [1]))", "[2]\n")
	f("import concurrent.futures as c\ndef f(x): return x + 1\nif __name__ == '__main__':\n    for kind in (c.ThreadPoolExecutor, c.ProcessPoolExecutor):\n        with kind(2) as p: print(list(p.map(f, [1, 2])))", "[2, 3]\n[2, 3]\n")
	f("import subprocess\nsubprocess.run(['ls'])\nprint(subprocess.run(['ls'], capture_output=True, text=True).stdout)", "main.py\nmain.py\n\n")
	f("import pickle\nclass A:\n    x = 1\nprint(pickle.loads(pickle.dumps(A())).x)", "1\n")
	f("import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))", "def f():\n    return 1\n\n")
	f("import dataclasses, typing\n@dataclasses.dataclass\nclass P:\n    x: int\n    y: 'typing.ClassVar[int]' = 2\nprint(P(1))", "P(x=1)\n")
	f("import os\nprint(os.path.basename(__file__), os.path.exists(__file__), __name__)", "main.py True __main__\n")
	f("import sys\nprint(sys.argv, sys.modules['__main__'].__dict__ is globals(), sys.stdin.isatty())", "['main.py'] True False\n")
	f("import atexit\natexit.register(print, 'at exit')\nprint('end')", "end\nat exit\n")
	f("import signal\nsignal.signal(signal.SIGALRM, lambda *_: print('rings'))\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()", "rings\n")
	f("import tempfile, sqlite3\nwith tempfile.TemporaryDirectory() as d:\n    c = sqlite3.connect(d + '/x.db'); c.execute('create table t (a)'); c.commit(); print('ok')", "ok\n")
	// A module laid beside the program.
	a := shared.ask(t, request{Code: "import helper\nprint(helper.x, open('data.txt').read())", Args: []string{"a b"}, Files: []file{
		{Path: "helper.py", Content: "x = 1"}, {Path: "data.txt", Content: "ZGF0YQ==", Encoding: "base64"}}})
	if a.Stdout != "1 data\n" || len(a.Files) != 0 {
		t.Errorf("%+v", a)
	}
}

// R25: a traceback shows the program's own frames and lines, and no others.
func TestR25Traceback(t *testing.T) {
	a := shared.run(t, "def f(x):\n    return g(x)\n\ndef g(x):\n    return 1 / x\n\nf(0)\n")
	for _, want := range []string{"Traceback (most recent call last):\n", "line 7, in <module>\n    f(0)", "line 2, in f\n    return g(x)", "line 5, in g\n    return 1 / x", "ZeroDivisionError: division by zero\n"} {
		if !strings.Contains(a.Stderr, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(a.Stderr, `File "`); n != 3 || strings.Count(a.Stderr, `main.py"`) != 3 {
		t.Errorf("%d frames:\n%s", n, a.Stderr)
	}
	f := func(code string) {
		t.Helper()
		a := shared.run(t, code)
		for _, bad := range []string{"ast.py", "bootstrap", "zygote", "serve(", "_execute", "<frozen runpy"} {
			if a.ExitCode != 1 || strings.Contains(a.Stderr, bad) {
				t.Errorf("%q: exit code %d:\n%s", code, a.ExitCode, a.Stderr)
			}
		}
	}
	// No Python.
	f("x = (1\n")
	// With a cause.
	f("try:\n    1/0\nexcept Exception as e:\n    raise ValueError('x') from e")
	// Too deep.
	f("def f(): f()\nf()")
	// With a hook that fails, and with none.
	hook := func(code string, want ...string) {
		t.Helper()
		f(code)
		a := shared.run(t, code)
		for _, w := range want {
			if !strings.Contains(a.Stderr, w) {
				t.Errorf("%q: %q is missing:\n%s", code, w, a.Stderr)
			}
		}
	}
	hook("import sys\ndef h(*a): raise MemoryError\nsys.excepthook = h\n1/0", "Error in sys.excepthook:\n", "MemoryError\n", "Original exception was:\n", "ZeroDivisionError: division by zero\n")
	hook("import sys\nsys.excepthook = None\n1/0", "Error in sys.excepthook:\n", "ZeroDivisionError: division by zero\n")
	hook("import sys\ndel sys.excepthook\n1/0", "sys.excepthook is missing\n", "ZeroDivisionError: division by zero\n")
	// Of a class that cannot be looked at.
	f("class M(type):\n    @property\n    def __name__(c): raise OSError\nclass E(Exception, metaclass=M): pass\nraise E")
	// In the last expression.
	f("(lambda: 1/0)()")
	// From a group.
	f("raise ExceptionGroup('g', [ValueError(1)])")
	// Printed by the program.
	f("import traceback, sys\ntry:\n    1/0\nexcept Exception:\n    traceback.print_exc()\nsys.exit(1)")
}
