package runner

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// withoutDescriptors marks the process in which no file can be opened any more.
const withoutDescriptors = "RUNNER_TEST_WITHOUT_DESCRIPTORS"

// Files are read where the program has left no descriptor to do so, and make
// room for each other.
func TestReserve(t *testing.T) {
	if dir := os.Getenv(withoutDescriptors); dir != "" {
		collectWithout(t, dir)
		return
	}
	f := func(spare, want string) {
		t.Helper()
		dir := t.TempDir()
		for _, name := range []string{"a", "b", "folder/c"} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestReserve$", "-test.v")
		cmd.Env = append(os.Environ(), withoutDescriptors+"="+dir, "SPARE="+spare)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "got "+want+"\n") {
			t.Errorf("want %q: %v: %s", want, err, out)
		}
	}
	// Nothing is left of what was read.
	f("yes", "[a b folder/c] left []")
	f("no", "cannot open the working directory")
}

// collectWithout is the process of the test.
func collectWithout(t *testing.T, path string) {
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var spare *Reserve
	if os.Getenv("SPARE") == "yes" {
		if spare, err = NewReserve(path); err != nil {
			t.Fatal(err)
		}
		if seen, err := os.ReadDir(path); err != nil || len(seen) != 3 {
			t.Errorf("the reserve shows: %v, %v", seen, err)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 256, Max: 256}); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = syscall.Open(os.DevNull, syscall.O_RDONLY, 0)
	}
	files, omitted, err := collect(dir, spare, &wire.Request{Code: "print(1)"}, 1000)
	if err != nil {
		fmt.Printf("got %.33s\n", err)
		return
	}
	if len(omitted) > 0 {
		t.Errorf("omitted %v", omitted)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
	}
	left, err := os.ReadDir(path)
	if err != nil {
		t.Error(err)
	}
	fmt.Printf("got %v left %v\n", names, left)
}
