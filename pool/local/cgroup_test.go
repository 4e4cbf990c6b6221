package local

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCgroupsAreUsedAgain(t *testing.T) {
	c, err := newCgroups(64 << 20)
	if err != nil {
		t.Logf("nothing to test: memory is watched here, since %v", err)
		return
	}
	defer c.close()
	if err := c.divideCPU(); err != nil {
		t.Logf("of memory alone, since %v", err)
	}
	take := func() *cgroup {
		t.Helper()
		g, err := c.take()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	giveBack := func(g *cgroup) {
		t.Helper()
		if err := c.giveBack(g); err != nil {
			t.Fatal(err)
		}
	}
	exists := func(g *cgroup) bool {
		for _, dir := range g.dirs() {
			if _, err := os.Stat(dir); err == nil {
				return true
			}
		}
		return false
	}
	swap := func(name string, file **os.File, content string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		(*file).Close()
		if *file, err = os.Open(path); err != nil {
			t.Fatal(err)
		}
	}

	// Two at a time are two.
	first, second := take(), take()
	if first.dir == second.dir {
		t.Fatal("two sandboxes got one cgroup")
	}
	// One that was given back comes again.
	giveBack(first)
	if again := take(); again != first {
		t.Fatalf("got %s, not the spare %s", again.dir, first.dir)
	}
	// One whose limit has ended a process does not, and is removed.
	swap("events", &first.events, "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
	giveBack(first)
	if exists(first) {
		t.Fatal("a cgroup with an OOM kill is kept")
	}
	if third := take(); third == first {
		t.Fatal("a cgroup with an OOM kill was used again")
	}
	// One to which memory is still charged does not.
	giveBack(second)
	swap("usage", &second.usage, "400000000\n")
	if fourth := take(); fourth == second || exists(second) {
		t.Fatal("a cgroup with memory still charged was used again")
	}
	// Nothing is left.
	for range maxSpare + 5 {
		giveBack(take())
	}
	c.close()
	for _, f := range c.folders() {
		if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
			t.Fatalf("the folder of cgroups is left: %v", err)
		}
	}
}
