package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// One real service answers all of these.
func TestRun(t *testing.T) {
	s := serve(t, "--memory", "128MiB", "--output", "64KiB")
	f := func(name string, test func(*localService, *testing.T)) {
		t.Run(name, func(t *testing.T) {
			own := *s
			own.T = t // what fails is this test, not the one above it
			test(&own, t)
		})
	}
	f("exit codes", (*localService).exitCodes)
	f("input", (*localService).input)
	f("files", (*localService).filesBack)
	f("streaming", (*localService).streaming)
	f("long output", (*localService).longOutput)
	f("interrupt", (*localService).interrupt)
}

func (s *localService) exitCodes(t *testing.T) {
	f := func(code int, stdout, stderr, program string, flags ...string) {
		t.Helper()
		got := s.run(program, append(flags, "-")...)
		if got.code != code || got.stdout != stdout || !strings.Contains(got.stderr, stderr) || stderr == "" && got.stderr != "" {
			t.Errorf("%q: got %+v", program, got)
		}
	}
	// The program's own.
	f(0, "hi\n", "", "print('hi')")
	f(7, "", "", "import sys; sys.exit(7)")
	f(1, "", "ValueError: wrong", "raise ValueError('wrong')")
	f(3, "", "oops", "import sys; print('oops', file=sys.stderr); sys.exit(3)")
	// A value at the end is not output.
	f(0, "", "", "1 + 1")
	// Not its own, and why.
	f(124, "begun\n", "timeout of 0.3 s", "import time; print('begun'); time.sleep(20)", "--timeout", "300ms")
	f(137, "", "memory limit of 128 MiB", "b = bytearray(300 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1")
	f(139, "", "signal 11", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
	// Refused by the service, in its words.
	f(125, "", "over the limit of 300", "1", "--timeout", "1h")
	f(125, "", "LD_PRELOAD", "1", "--env", "LD_PRELOAD=x")
	// Refused by us.
	f(125, "", "not UTF-8", "\xff")
	// Of much output the head and the tail.
	got := s.run("print('a' * 100000); print('end')", "-")
	if got.code != 0 || !strings.HasSuffix(got.stdout, "aaa\nend\n") || !strings.HasPrefix(got.stdout, "aaa") {
		t.Errorf("got %d bytes, exit code %d, stderr %q", len(got.stdout), got.code, got.stderr)
	}
}

func (s *localService) input(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	program := write("p.py", "import os, sys\nprint(sys.argv[1:], os.environ.get('MODE'), repr(sys.stdin.read()))\n"+
		"print(open('text.txt').read(), open('d/bin', 'rb').read(), open('a:b').read())\n")
	text, bin, colon := write("text.txt", "é"), write("bin", "\xff\x00"), write("a:b", "c")
	got := s.run("line\n", "--stdin", "--env", "MODE=x", "--file", text, "--file", bin+":d/bin", "--file", colon, program, "a", "--json")
	if got.code != 0 || got.stdout != "['a', '--json'] x 'line\\n'\né b'\\xff\\x00' c\n" {
		t.Errorf("got %+v", got)
	}
	// Without --stdin there is none.
	if got := s.run("line\n", write("q.py", "import sys; print(repr(sys.stdin.read()))")); got.stdout != "''\n" {
		t.Errorf("got %+v", got)
	}
	// What cannot be read is named.
	if got := s.run("", filepath.Join(dir, "none.py")); got.code != 125 || !strings.Contains(got.stderr, "none.py") {
		t.Errorf("got %+v", got)
	}
	if got := s.run("", "--file", filepath.Join(dir, "none.csv"), program); got.code != 125 || !strings.Contains(got.stderr, "none.csv") {
		t.Errorf("got %+v", got)
	}
}

func (s *localService) filesBack(t *testing.T) {
	const program = "import os\nos.makedirs('o/p')\nopen('o/p/bin', 'wb').write(b'\\xff\\x00')\nopen('t.txt', 'w').write('é')\n"
	out := filepath.Join(t.TempDir(), "new", "out")
	got := s.run(program, "--out", out, "-")
	if got.code != 0 || got.stderr != "" {
		t.Errorf("got %+v", got)
	}
	f := func(name, want string) {
		t.Helper()
		if b, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
	}
	f("o/p/bin", "\xff\x00")
	f("t.txt", "é")
	// Names that are not UTF-8 do not overwrite each other.
	odd := "for name, text in ((b'a\\xff', '1'), (b'a\\xfe', '2'), (b'a\\\\xff', '3')): open(name, 'w').write(text)"
	if got := s.run(odd, "--out", out, "-"); got.code != 0 || got.stderr != "" {
		t.Errorf("got %+v", got)
	}
	f(`a\xff~2`, "1")
	f(`a\xfe`, "2")
	f(`a\xff`, "3")
	// Without --out they are named.
	if got := s.run(program, "-"); got.code != 0 || !strings.Contains(got.stderr, "t.txt") || !strings.Contains(got.stderr, "--out") {
		t.Errorf("got %+v", got)
	}
	// What did not fit is named.
	if got := s.run("open('big', 'wb').write(b'x' * (11 << 20))", "--out", out, "-"); got.code != 0 || !strings.Contains(got.stderr, `"big"`) {
		t.Errorf("got %+v", got)
	}
	// The whole answer.
	got = s.run("print('hi'); open('t.txt', 'w').write('é'); 1 + 1", "--json", "-")
	var res wire.Result
	if err := json.Unmarshal([]byte(got.stdout), &res); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	if got.code != 0 || res.Stdout != "hi\n" || res.Value == nil || *res.Value != "2" || len(res.Files) != 1 || res.Files[0].Content != "é" {
		t.Errorf("got %+v", res)
	}
}

// Output comes while the program runs, in order.
func (s *localService) streaming(t *testing.T) {
	began := time.Now()
	cmd, out, errs := s.slow(t.Context())
	if early := time.Since(began); early > 1800*time.Millisecond {
		t.Errorf("the first line came after %s", early)
	}
	if out.String() != "begun\n" {
		t.Errorf("at first came %q", out)
	}
	if err := cmd.Wait(); err != nil || out.String() != "begun\nover\n" {
		t.Errorf("it ended with %v, stdout %q, stderr %q", err, out, errs)
	}
}

// Ctrl-C ends the run: its sandbox is gone long before the program would end.
func (s *localService) interrupt(t *testing.T) {
	cmd := binaryCommand(t.Context(), "run", "--url", s.url, "-")
	cmd.Stdin = strings.NewReader("import subprocess, time\nprint('begun', flush=True)\nsubprocess.run(['sleep', '59.17'])\n")
	out := new(syncBuffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.until(t, "begun")
	for deadline := time.Now().Add(10 * time.Second); !sleeps(t); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the program's process is not there")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its exit code is looked at
	if code := cmd.ProcessState.ExitCode(); code != 130 || out.String() != "begun\n" {
		t.Errorf("exit code %d, output %q", code, out)
	}
	for deadline := time.Now().Add(10 * time.Second); sleeps(t); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the program's process is still there")
		}
	}
}

// sleeps says whether the process of the interrupted program is there.
func sleeps(t *testing.T) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if b, err := os.ReadFile(line); err == nil && string(b) == "sleep\x0059.17\x00" {
			return true
		}
	}
	return false
}

// Where no service answers, we say how to start one; where another thing
// answers, that it does.
func TestNoService(t *testing.T) {
	f := func(url string, want ...string) {
		t.Helper()
		got := call(t, "print(1)", "run", "--url", url, "-")
		if got.code != 125 || got.stdout != "" {
			t.Errorf("%s: got %+v", url, got)
		}
		for _, w := range want {
			if !strings.Contains(got.stderr, w) {
				t.Errorf("%s: stderr %q has no %q", url, got.stderr, w)
			}
		}
	}
	f("http://127.0.0.1:1", "http://127.0.0.1:1", "code-sandbox local")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	f(other.URL, "not Code Sandbox", "404")
}

// A service that cannot be trusted writes nothing outside the folder.
func TestKeepStaysBelow(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(out, "link")); err != nil {
		t.Fatal(err)
	}
	f := func(path string) {
		t.Helper()
		o := runOptions{out: out}
		err := o.keep(&answer{Result: wire.Result{Files: []wire.File{{Path: path, Content: "x"}}}})
		if err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%q: got %v", path, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "evil")); !os.IsNotExist(err) {
			t.Fatalf("%q has left the folder", path)
		}
	}
	f("../evil")
	f("a/../../evil")
	f("link/evil")
	f(filepath.Join(dir, "evil"))
}

// What replaces streamed output is told apart from it.
func TestReplaced(t *testing.T) {
	var out, errs syncBuffer
	o := output{stdout: &out, stderr: &errs}
	body := `{"event":"stdout","text":"abc"}` + "\n" + `{"event":"end","stdout":"a…c","stdout_replaces":true,"outcome":"ok"}` + "\n"
	a, err := o.follow(strings.NewReader(body))
	if err == nil {
		err = o.finish(a)
	}
	if err != nil || out.String() != "abca…c" || !strings.Contains(errs.String(), "stdout") {
		t.Errorf("stdout %q, stderr %q, %v", &out, &errs, err)
	}
	// What was streamed to its end is not written again; the whole answer is what was kept.
	body = `{"event":"stdout","text":"abcd[…]f"}` + "\n" + `{"event":"end","stdout":"a[…]f","stdout_replaces":true,"stdout_streamed":true,"outcome":"ok"}` + "\n"
	shown := func(json bool) string {
		t.Helper()
		var out, errs syncBuffer
		o := output{stdout: &out, stderr: &errs, json: json}
		a, err := o.follow(strings.NewReader(body))
		if err == nil {
			err = o.finish(a)
		}
		if err != nil || errs.String() != "" {
			t.Errorf("stderr %q, %v", &errs, err)
		}
		return out.String()
	}
	if got := shown(false); got != "abcd[…]f" {
		t.Errorf("stdout %q", got)
	}
	if got := shown(true); !strings.Contains(got, `"stdout": "a[…]f"`) {
		t.Errorf("the whole answer is %s", got)
	}
	f := func(body, want string) {
		t.Helper()
		o := output{stdout: &out, stderr: &errs}
		if _, err := o.follow(strings.NewReader(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", body, err)
		}
	}
	// A stream that breaks off, one that fails, and none at all.
	f(`{"event":"stdout","text":"abc"}`+"\n", "went away")
	f(`{"event":"error","error":{"code":"sandbox_lost","message":"it is gone","executed":"maybe"}}`+"\n", "it is gone")
	f(`{"event":"error"}`+"\n", "does not say why")
	f("<html>\n", "cannot understand")
}

// The request that flags make.
func TestRequest(t *testing.T) {
	o := runOptions{file: "-", timeout: 1500 * time.Millisecond, args: []string{"a"}, env: pairs{"A": "b"}}
	req, err := o.request(strings.NewReader("print(1)"))
	if err != nil || req.Code != "print(1)" || req.TimeoutSeconds != 1.5 || req.Args[0] != "a" || req.Env["A"] != "b" || req.Stdin != nil {
		t.Errorf("got %+v, %v", req, err)
	}
	if _, err := (&runOptions{file: "-", url: "http://[::1]:1"}).send(context.Background(), req, &output{}); err == nil {
		t.Error("a run where nobody listens has an answer")
	}
}
