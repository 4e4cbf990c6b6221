package cluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The recorded process is known by its start, not by its number alone, and
// one that has ended is gone although nobody has waited for it.
func TestAlive(t *testing.T) {
	started, err := startTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !(State{Pid: os.Getpid(), Started: started}).alive() {
		t.Error("this process does not live")
	}
	if (State{Pid: os.Getpid(), Started: started + 1}).alive() {
		t.Error("another process with the same number is taken for the one recorded")
	}
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started, err = startTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if (State{Pid: cmd.Process.Pid, Started: started}).alive() {
		t.Error("a process that has ended lives")
	}
}

// Two work folders never share a cgroup, and one always has the same.
func TestName(t *testing.T) {
	name := func(work string) string {
		b, err := New(Options{Work: work, Cache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return b.name
	}
	dir := t.TempDir()
	if name(filepath.Join(dir, "a")) != name(filepath.Join(dir, "b", "..", "a")) {
		t.Error("one folder has two names")
	}
	if name(filepath.Join(dir, "a")) == name(filepath.Join(dir, "b")) {
		t.Error("two folders have one name")
	}
}

func TestSince(t *testing.T) {
	f := func(before, now []string, want int) {
		t.Helper()
		if got := (Surroundings{"link": now}).since(Surroundings{"link": before}); len(got) != want {
			t.Errorf("found %q, want %d", got, want)
		}
	}
	// nothing new
	f([]string{"lo"}, []string{"lo"}, 0)
	// something new
	f([]string{"lo"}, []string{"lo", "veth1"}, 1)
	// something has gone: that is not ours
	f([]string{"lo", "eth0"}, []string{"lo"}, 0)
	// something has changed
	f([]string{"lo UP"}, []string{"lo DOWN"}, 1)
}
