package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "built")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// main has the first thread, however busy the others are.
func TestMain(m *testing.M) {
	for range 1000 {
		turn := make(chan bool)
		go func() { close(turn) }()
		<-turn
		if syscall.Gettid() != os.Getpid() {
			fmt.Fprintln(os.Stderr, "main is not on the first thread")
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// What it is told wrongly ends it with 2, and another failure with 1.
func TestExits(t *testing.T) {
	runner := build(t)
	f := func(env []string, exit int, says string, args ...string) {
		t.Helper()
		cmd := exec.Command(runner, args...)
		cmd.Env = env
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != exit || !strings.Contains(string(out), says) {
			t.Errorf("%q ended with %d: %s", args, got, out)
		}
	}
	good := `CODE_SANDBOX_RUNNER={"secret_sha256":"` + strings.Repeat("00", 32) + `","life":1000000000,"python":"/bin/sh","limits":` +
		`{"memory_bytes":536870912,"disk_bytes":268435456,"disk_files":1000,"processes":64,"open_files":256,"output_bytes":1024,"files_bytes":1,"max_run":1000000000}}`
	// No configuration, and one that is none.
	f(nil, 2, "CODE_SANDBOX_RUNNER")
	f([]string{"CODE_SANDBOX_RUNNER={}"}, 2, "secret_sha256", "serve")
	// An image without an interpreter.
	f([]string{strings.Replace(good, "/bin/sh", "no-python", 1)}, 1, `cannot find the Python interpreter "no-python"`)
	// Outside of a pod it would kill what is not its own.
	f([]string{good}, 1, "must be process 1")
	// A descriptor that is not there.
	f(nil, 1, "must be process 1", "serve", "77")
	// Commands that are none.
	f(nil, 2, "no such command", "start")
	f(nil, 2, "no such command", "install")
	f(nil, 0, "runner install DIR", "help")
}

// A copy of the program appears whole, can be executed and not be written.
func TestInstall(t *testing.T) {
	runner, dir := build(t), t.TempDir()
	f := func(dir string, want string) {
		t.Helper()
		out, err := exec.Command(runner, "install", dir).CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s", err, out)
		}
	}
	// Once, and over what is there.
	f(dir, "")
	f(dir, "")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 || entries[0].Name() != "empty" || entries[1].Name() != "hook" || entries[2].Name() != "none" || entries[3].Name() != "runner" {
		t.Fatalf("%v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "hook", "runcopy.py")); err != nil {
		t.Error(err)
	}
	if empty, err := entries[0].Info(); err != nil || empty.Size() != 0 || empty.Mode() != 0o644 {
		t.Errorf("the empty file is %v, %v", empty, err)
	}
	if none, err := os.ReadDir(filepath.Join(dir, "none")); err != nil || len(none) != 0 {
		t.Errorf("the empty folder has %v, %v", none, err)
	}
	info, err := entries[3].Info()
	if err != nil || info.Mode() != 0o555 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if out, err := exec.Command(filepath.Join(dir, "runner"), "help").CombinedOutput(); err != nil {
		t.Errorf("the copy does not run: %v: %s", err, out)
	}
	// A folder that is not there.
	f(filepath.Join(dir, "missing"), "cannot install into")
	// The target is a folder: nothing of the runner is left beside it.
	other := t.TempDir()
	if err := os.Mkdir(filepath.Join(other, "runner"), 0o755); err != nil {
		t.Fatal(err)
	}
	f(other, "cannot install into")
	if entries, _ := filepath.Glob(filepath.Join(other, ".*")); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// A runner refuses whoever has no secret, and that is how it shows its life.
func TestHealth(t *testing.T) {
	f := func(status int, healthy bool) {
		t.Helper()
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		defer s.Close()
		if err := health([]string{s.Listener.Addr().String()}); (err == nil) != healthy {
			t.Errorf("%d: %v", status, err)
		}
	}
	f(401, true)
	f(200, false)
	f(404, false)
	// Nobody is there.
	if err := health([]string{"127.0.0.1:1"}); err == nil {
		t.Error("nobody was taken for a runner")
	}
	// A command line that is none.
	if err := run([]string{"health", "a", "b"}); !errors.Is(err, errUsage) {
		t.Errorf("the error is %v", err)
	}
}
