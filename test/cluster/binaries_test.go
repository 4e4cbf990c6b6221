package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The key changes with everything that a build is made of.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", "package main")
	write("go.mod", "module m")
	p := program{name: "p", inputs: []string{"*.go", "go.mod"}}
	key := func(p program) string {
		k, err := p.key(dir)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := key(p)
	if key(p) != first {
		t.Fatal("the same has two keys")
	}
	f := func(name, content string, changes func(*program), same bool) {
		t.Helper()
		q := p
		changes(&q)
		before, err := os.ReadFile(filepath.Join(dir, name))
		write(name, content)
		if (key(q) == first) != same {
			t.Errorf("the key is the same: %t", !same)
		}
		if write(name, string(before)); err != nil {
			os.Remove(filepath.Join(dir, name))
		}
	}
	none := func(*program) {}
	// a test of it
	f("main_test.go", "package main", none, true)
	// its source
	f("main.go", "package main // changed", none, false)
	// a further file
	f("more.go", "package main", none, false)
	// a version
	f("go.mod", "module m // changed", none, false)
	// a flag
	f("main.go", "package main", func(p *program) { p.tags = "seccomp" }, false)
	// a change to somebody else's source
	f("main.go", "package main", func(p *program) { p.changes = []change{{"a", "b", "c"}} }, false)
}

// A build that fails or is killed leaves nothing under the name of a whole one.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	wrong := errors.New("wrong")
	err := whole(filepath.Join(dir, "p-1"), func(to string) error {
		return errors.Join(os.WriteFile(filepath.Join(to, "half"), nil, 0o644), wrong)
	})
	if !errors.Is(err, wrong) {
		t.Fatalf("error %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, half+"killed"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeHalf(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Fatalf("left %v, %v", left, err)
	}
	if err := whole(filepath.Join(dir, "p-1"), func(to string) error { return os.WriteFile(filepath.Join(to, "p"), nil, 0o755) }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "p-1", "p")); err != nil {
		t.Fatal(err)
	}
}
