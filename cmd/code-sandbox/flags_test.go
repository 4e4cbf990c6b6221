package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A flag that is not given comes from the environment; one that is given wins.
func TestEnvironment(t *testing.T) {
	t.Setenv("CODE_SANDBOX_ADMIN_LISTEN", "127.0.0.1:1")
	t.Setenv("CODE_SANDBOX_MEMORY", "64MiB")
	t.Setenv("CODE_SANDBOX_TARGET", "5")
	o, err := parseLocal([]string{"--target", "2"})
	if err != nil || o.adminListen != "127.0.0.1:1" || o.memory != 64<<20 || o.target != 2 || o.isolation != "namespaces" {
		t.Errorf("got %+v, %v", o, err)
	}
	t.Setenv("CODE_SANDBOX_URL", "http://example.test:1/")
	r, err := parseRun([]string{"x.py"})
	if err != nil || r.url != "http://example.test:1" {
		t.Errorf("got %+v, %v", r, err)
	}
	t.Setenv("CODE_SANDBOX_MEMORY", "much")
	if _, err := parseLocal(nil); err == nil || !strings.Contains(err.Error(), "CODE_SANDBOX_MEMORY") {
		t.Errorf("got %v", err)
	}
}

func TestRunFlags(t *testing.T) {
	f := func(args []string, file string, programArgs ...string) runOptions {
		t.Helper()
		o, err := parseRun(args)
		if err != nil || o.file != file || !slices.Equal(o.args, programArgs) {
			t.Errorf("%q: got %+v, %v", args, o, err)
		}
		return o
	}
	// What follows FILE is the program's, flags too.
	f([]string{"x.py"}, "x.py")
	f([]string{"--stdin", "x.py", "a", "--json"}, "x.py", "a", "--json")
	f([]string{"x.py", "--", "-v"}, "x.py", "-v")
	f([]string{"-", "a"}, "-", "a")
	f([]string{"--", "x.py", "a"}, "x.py", "a")
	// Flags that repeat.
	o := f([]string{"--env", "A=1", "--env", "B=x=y", "--file", "f", "--file", "g:h", "--timeout", "2s", "x.py"}, "x.py")
	// A plain number is seconds.
	if o := f([]string{"--timeout", "1.5", "x.py"}, "x.py"); o.timeout != 1500*time.Millisecond {
		t.Error(o.timeout)
	}
	if o.env["A"] != "1" || o.env["B"] != "x=y" || !slices.Equal(o.files, repeated{"f", "g:h"}) || o.timeout != 2*time.Second {
		t.Errorf("got %+v", o)
	}
}

// Every mistake is exit code 2 and a sentence that names the flag.
func TestMistakes(t *testing.T) {
	f := func(names string, args ...string) {
		t.Helper()
		got := call(t, "", args...)
		if got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, names) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, got.code, got.stdout, got.stderr)
		}
	}
	// What other machines can reach needs a word more.
	f("set --hosts", "local", "--listen", "0.0.0.0:8900")
	f("set --hosts", "local", "--listen", ":8900")
	// The wrong one of two is named.
	f("--max is 0; it must be at least 1", "local", "--max", "0")
	// A size without its unit.
	f("--memory: the limit on memory is 512 bytes", "local", "--memory", "512")
	f("sizes have a unit, like 512MiB", "local", "--memory", "512")
	// Only an agent has a summary.
	f("its command goes after --", "local", "--summary")
	// A slip of the pen.
	f("did you mean --target?", "local", "--targt", "5")
	f("did you mean --timeout?", "run", "--timeut=5", "x.py")
	f("--dns", "local", "--dns", "yes")
	f("--isolation", "local", "--isolation", "vm")
	f("--isolation", "local", "--isolation", "")
	f("--target", "local", "--target", "0")
	f("--target", "local", "--target", "9", "--max", "8")
	f("-target", "local", "--target", "many")
	f("--timeout is 0s; it can be 1ms to --max-timeout, which is 5m0s", "local", "--timeout", "0")
	f("--timeout is 1µs; it can be 1ms to", "local", "--timeout", "1us")
	f("--max-timeout: the limit on run time is 0s; the least that works is 1ms", "local", "--timeout", "1ms", "--max-timeout", "0")
	// More than the machine has.
	f("--memory is 999TiB, and this machine has ", "local", "--memory", "999TiB")
	f("--disk is 999TiB, and this machine has ", "local", "--disk", "999TiB")
	f("--timeout", "local", "--timeout", "10m")
	f("-timeout", "local", "--timeout", "soon")
	f("--drain", "local", "--drain", "-1s")
	f("--log-level", "local", "--log-level", "loud")
	f("-memory", "local", "--memory", "much")
	f("--memory", "local", "--memory", "1MiB")
	f("--disk", "local", "--disk", "1KiB")
	f("--processes", "local", "--processes", "1")
	f("--output", "local", "--output", "1")
	f("--max-timeout", "local", "--max-timeout", "1ns", "--timeout", "1ns")
	f("-nonsense", "local", "--nonsense")
	f("\"extra\"", "local", "extra")
	f("FILE", "run")
	f("--url", "run", "--url", "localhost:8900", "x.py")
	f("it must be at least 1ms", "run", "--timeout", "-1s", "x.py")
	f("it must be at least 1ms", "run", "--timeout", "0", "x.py")
	f("-env", "run", "--env", "A", "x.py")
	f("-file", "run", "--file", "", "x.py")
	f("--stdin", "run", "--stdin", "-")
	f("nonsense", "nonsense")
}

func TestHelp(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		if got := call(t, "", args...); got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, want) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, got.code, got.stdout, got.stderr)
		}
	}
	f("code-sandbox run FILE|-", "help")
	f("-admin-listen", "local", "-h")
	f("-out", "run", "--help")
	f("code-sandbox tools [flags] -- COMMAND", "tools", "-h")
	f("code-sandbox ", "version")
	f("code-sandbox ", "--version")
}
