package server

import (
	"os"
	"path/filepath"
	"testing"
)

// Where a container's count of processes ended for memory stands.
func TestFindEvents(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := func(mount, own, want string) {
		t.Helper()
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got := findEvents(parseMounts([]byte(mount)), own); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	put("two/memory.max", "536870912\n")
	put("none/memory.max", "max\n")
	put("one/memory.limit_in_bytes", "536870912\n")
	put("all/memory.limit_in_bytes", "9223372036854771712\n")
	put("all/pods/x/memory.limit_in_bytes", "536870912\n")
	unified := "30 1 0:26 / " + root + "/two ro,nosuid - cgroup2 cgroup rw\n"
	// Version 2, in a cgroup namespace.
	f(unified, "0::/\n", "two/memory.events")
	// Version 2 without a limit.
	f("30 1 0:26 / "+root+"/none rw - cgroup2 cgroup rw\n", "0::/\n", "")
	// Version 1, where the container's own folder is mounted under its full path.
	f("31 1 0:27 /pods/x "+root+"/one ro - cgroup cgroup rw,memory\n", "9:pids:/pods/x\n8:memory:/pods/x\n", "one/memory.oom_control")
	// Version 1, where the whole hierarchy is mounted.
	f("31 1 0:27 / "+root+"/all ro - cgroup cgroup rw,memory\n", "8:memory:/pods/x\n", "all/pods/x/memory.oom_control")
	// The root of all: its events are those of others.
	f("31 1 0:27 / "+root+"/all ro - cgroup cgroup rw,memory\n", "8:memory:/\n", "")
	// Other hierarchies, and both versions beside each other.
	f("31 1 0:27 / "+root+"/one ro - cgroup cgroup rw,pids\n", "8:memory:/\n", "")
	f("30 1 0:26 / "+root+"/none rw - cgroup2 cgroup rw\n31 1 0:27 /pods/x "+root+"/one ro - cgroup cgroup rw,memory\n", "8:memory:/pods/x\n0::/\n", "one/memory.oom_control")
	// Nothing mounted, and lines that are none.
	f("", "0::/\n", "")
	f("a b - c\n- cgroup2\n", "x\n", "")
}

// The count in either version's file.
func TestOOMKills(t *testing.T) {
	f := func(text string, want int64) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "events")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := oomKills(file); got != want {
			t.Errorf("%q has %d", text, got)
		}
	}
	f("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n", 2)
	f("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", 5)
	// A kernel that does not count.
	f("oom_kill_disable 0\nunder_oom 0\n", 0)
	f("oom_kill x\n", 0)
	if got := oomKills(filepath.Join(t.TempDir(), "none")); got != 0 {
		t.Errorf("no file has %d", got)
	}
}
