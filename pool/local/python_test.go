package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is no Python says so in its own last line, and does not recite what it was
// asked.
func TestNoPython(t *testing.T) {
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "python")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := func(path, want string) {
		t.Helper()
		_, err := LookPython(t.Context(), path)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "import") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", path, err)
		}
	}
	f("/bin/ls", "is no Python")
	f("/bin/sh", "is no Python")
	f("/bin/cat", "is no Python")
	f(script("cat >&2; exit 1"), "exit status 1: it cannot read Python")
	f(script("echo first >&2; echo 'libx.so: cannot open shared object file' >&2; exit 127"), "exit status 127: libx.so: cannot open shared object file")
}
