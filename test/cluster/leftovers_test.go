package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Each kind of thing that a cluster could leave is found while it is there,
// and nothing when it is gone.
func TestLeftovers(t *testing.T) {
	b, err := New(Options{Work: filepath.Join(t.TempDir(), "work"), Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	f := func(s State, change func(before Surroundings), want string) {
		t.Helper()
		before, err := LookAround()
		if err != nil {
			t.Fatal(err)
		}
		change(before)
		left, err := b.Leftovers(s, before)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(left, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	same := func(Surroundings) {}
	gone := State{Name: b.name, Work: b.work}
	// nothing
	f(gone, same, "")
	// a setting of the machine that was another before
	f(gone, func(s Surroundings) { s["setting"] = []string{"vm/panic_on_oom=7"} }, "setting vm/panic_on_oom=")
	// a folder, and a process in it
	if err := os.MkdirAll(filepath.Join(b.work, "log"), 0o755); err != nil {
		t.Fatal(err)
	}
	f(gone, same, "folder "+b.work)
	sleeper := exec.Command("sleep", "60")
	sleeper.Dir = filepath.Join(b.work, "log")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	f(gone, same, "in the folder ")
	if err := sleeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sleeper.Wait() // it was killed
	// a process in one of its namespaces
	own, err := namespacesOf(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	f(State{Name: b.name, Work: b.work, Namespaces: map[string]uint64{"net": own["net"]}}, same, "in the cluster's net namespace")
	if err := os.RemoveAll(b.work); err != nil {
		t.Fatal(err)
	}
	// one that began after the node had ended, in a namespace of the same number
	if b.ended, err = ticks(); err != nil {
		t.Fatal(err)
	}
	apart := func(when time.Duration, want string) {
		t.Helper()
		time.Sleep(when)
		late := exec.Command("sleep", "60")
		late.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
		if err := late.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = late.Process.Kill(); _ = late.Wait() }()
		its, err := namespacesOf(late.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		f(State{Name: b.name, Work: b.work, Namespaces: map[string]uint64{"uts": its["uts"]}}, same, want)
	}
	apart(50*time.Millisecond, "")
	b.ended += 100_000
	apart(0, "in the cluster's uts namespace")
}
