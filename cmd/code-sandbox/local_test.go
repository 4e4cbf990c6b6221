package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What cannot work is an error at start that says what to do.
func TestCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	old := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho '{\"version\": \"3.7.1\", \"supported\": false}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := func(want []string, args ...string) {
		t.Helper()
		got := call(t, "", append([]string{"local", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--python", testPython}, args...)...)
		if got.code != 1 || got.stdout != "" {
			t.Errorf("%q: exit code %d, stdout %q", args, got.code, got.stdout)
		}
		for _, w := range want {
			if !strings.Contains(got.stderr, w) {
				t.Errorf("%q: stderr %q has no %q", args, got.stderr, w)
			}
		}
	}
	// A port that cannot be.
	f([]string{"listen", "127.0.0.1:99999"}, "--listen", "127.0.0.1:99999")
	// A port that another has.
	f([]string{"listen", taken.Addr().String(), "in use"}, "--listen", taken.Addr().String())
	f([]string{"admin-listen", taken.Addr().String(), "in use"}, "--admin-listen", taken.Addr().String())
	// No Python, and one that is too old.
	f([]string{"\"/bin/ls\" is no Python", "--python"}, "--python", "/bin/ls")
	f([]string{"\"/bin/true\" is no Python", "--python"}, "--python", "/bin/true")
	f([]string{"no-such-python", "--python"}, "--python", "no-such-python")
	f([]string{"3.7.1", "3.8", "--python"}, "--python", old)
	f([]string{"\"/etc/passwd\" is no Python: it is no program", "--python"}, "--python", "/etc/passwd")
	f([]string{"\"/usr\" is no Python", "--python"}, "--python", "/usr")
	// Packages that a sandbox would not see.
	hidden := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(hidden, []byte("#!/bin/sh\necho '{\"executable\": \"/usr/bin/python3\", \"path\": [\"/tmp/venv/lib\"], \"supported\": true}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f([]string{"/tmp/venv/lib", "--python"}, "--python", hidden)
	// A module that is not there, with isolation and without.
	f([]string{"no_such_module", testPython, "--preload"}, "--preload", "json,no_such_module")
	f([]string{"no_such_module", testPython, "--preload"}, "--preload", "no_such_module.part", "--isolation", "none")
}

// One start in the default isolation: what it says, and that it stays alone.
func TestLocal(t *testing.T) {
	s := serve(t, "--memory", "128MiB")
	if !strings.Contains(s.ready, "isolation namespaces") || s.stderr.String() != "" {
		t.Errorf("ready line %q, stderr %q", s.ready, s.stderr)
	}
	// A second instance on the same port.
	second := call(t, "", "local", "--listen", strings.TrimPrefix(s.url, "http://"), "--admin-listen", "127.0.0.1:0", "--python", testPython, "--preload", "none")
	if second.code != 1 || !strings.Contains(second.stderr, "in use") {
		t.Errorf("a second one ends with %d, %q", second.code, second.stderr)
	}
	// The first goes on.
	if got := s.run("print(6 * 7)", "-"); got.code != 0 || got.stdout != "42\n" {
		t.Errorf("got %+v", got)
	}
	shares := readyLine.FindStringSubmatch(s.ready)[3]
	if got := s.get("/limits"); !strings.Contains(got, `"memory_bytes":134217728`) || !strings.Contains(got, `"cpu_by":"`+shares+`"`) {
		t.Errorf("the limits are %s", got)
	}
	s.stop()
	if code := s.waitEnd(20 * time.Second); code != 0 {
		t.Errorf("exit code %d after SIGTERM, stderr %q", code, s.stderr)
	}
}

// An address that others can reach is remarked upon, with what they can do.
func TestRemarks(t *testing.T) {
	s := serve(t, "--admin-listen", "0.0.0.0:0", "--listen", "0.0.0.0:0", "--hosts", "127.0.0.1")
	for _, want := range []string{
		"remark: --listen is 0.0.0.0:0, which other machines can reach: whoever reaches it and asks for a host of --hosts can run programs here",
		"remark: --admin-listen is 0.0.0.0:0, which other machines can reach: whoever reaches it can read metrics",
	} {
		if !strings.Contains(s.stderr.String(), want) {
			t.Errorf("stderr %q has no %q", s.stderr, want)
		}
	}
	f := func(want int, args ...string) {
		t.Helper()
		o, err := parseLocal(args)
		if err != nil || len(o.remarks()) != want {
			t.Errorf("%q: %q, %v", args, o.remarks(), err)
		}
	}
	f(0)
	f(0, "--admin-listen", "localhost:1")
	f(0, "--admin-listen", "[::1]:1")
	f(1, "--admin-listen", ":1")
	f(1, "--admin-listen", "[::]:1")
	f(1, "--admin-listen", "10.1.2.3:1")
	f(1, "--admin-listen", "box.internal:1")
}

// Without isolation it works all the same, and never says less than that.
func TestLocalWithoutIsolation(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := serve(t, "--isolation", "none")
	if !strings.Contains(s.ready, "isolation none") {
		t.Errorf("ready line %q", s.ready)
	}
	if warning := s.stderr.String(); !strings.Contains(warning, "WARNING: --isolation=none") || !strings.Contains(warning, "your files") {
		t.Errorf("the warning is %q", warning)
	}
	f := func(what, got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("%s has no %s: %s", what, want, got)
		}
	}
	f("/healthz", s.get("/healthz"), `"isolation":"none"`)
	f("/limits", s.get("/limits"), `"isolation":"none"`)
	f("/limits", s.get("/limits"), `"network":"host"`)
	f("the answer", s.run("print(1)", "--json", "-").stdout, `"isolation": "none"`)
	// Two runs share nothing but the machine.
	const mark = "import os\nprint(os.path.exists('mark'))\nopen('mark', 'w').close()"
	for range 2 {
		if got := s.run(mark, "-"); got.stdout != "False\n" || got.code != 0 {
			t.Errorf("got %+v", got)
		}
	}
	s.stop()
	if code := s.waitEnd(20 * time.Second); code != 0 {
		t.Errorf("exit code %d, stderr %q", code, s.stderr)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// In a folder that is gone, without a home: a service needs neither.
func TestLocalWithoutHome(t *testing.T) {
	t.Chdir(t.TempDir())
	gone, err := os.MkdirTemp(".", "gone")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", "")
	os.Unsetenv("HOME") // Setenv has it put back
	t.Chdir(gone)
	if err := os.Remove("../" + gone); err != nil {
		t.Fatal(err)
	}
	if got := serve(t).run("print(1)", "-"); got.code != 0 || got.stdout != "1\n" {
		t.Errorf("got %+v", got)
	}
}

// slow starts a run that writes "begun", and "over" two seconds later.
func (s *localService) slow(ctx context.Context) (*exec.Cmd, *syncBuffer, *syncBuffer) {
	s.Helper()
	cmd := binaryCommand(ctx, "run", "--url", s.url, "-")
	cmd.Stdin = bytes.NewReader([]byte("import time\nprint('begun', flush=True)\ntime.sleep(2)\nprint('over')\n"))
	out, errs := new(syncBuffer), new(syncBuffer)
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	out.until(s.T, "begun")
	return cmd, out, errs
}

// After the first signal, a run in flight finishes, and the service then ends.
func TestDrain(t *testing.T) {
	s := serve(t)
	cmd, out, errs := s.slow(t.Context())
	s.stop()
	if err := cmd.Wait(); err != nil || out.String() != "begun\nover\n" {
		t.Errorf("the run ended with %v, stdout %q, stderr %q", err, out, errs)
	}
	if code := s.waitEnd(20 * time.Second); code != 0 {
		t.Errorf("exit code %d, stderr %q", code, s.stderr)
	}
}

// A second signal ends the runs at once and in order: their callers are told,
// and the service ends well.
func TestSecondSignal(t *testing.T) {
	s := serve(t)
	cmd, out, errs := s.slow(t.Context())
	s.stop()
	time.Sleep(200 * time.Millisecond) // for the first to be taken: two at once are one
	s.stop()
	if code := s.waitEnd(20 * time.Second); code != 0 {
		t.Errorf("exit code %d, stderr %q", code, s.stderr)
	}
	_ = cmd.Wait() // its exit code is looked at
	if code := cmd.ProcessState.ExitCode(); code != 125 || out.String() != "begun\n" || !strings.Contains(errs.String(), "(no_capacity; some of the program may have run)") {
		t.Errorf("the client ended with %d, stdout %q, stderr %q", code, out, errs)
	}
}
