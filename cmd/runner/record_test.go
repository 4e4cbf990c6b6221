package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What is set is written as it is, and nothing else is.
func TestRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "image", "0")
	t.Setenv("PYTHONPATH", "/app:\n:")
	t.Setenv("EMPTY", "")
	t.Setenv("SECRET", "x")
	if err := run([]string{"record", dir, "PYTHONPATH", "EMPTY", "NOT_SET_ANYWHERE"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"PYTHONPATH": "/app:\n:", "EMPTY": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q: %v", name, got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v: %v", entries, err)
	}
	// Nothing is written elsewhere, and without a name there is nothing to do.
	if err := run([]string{"record", dir, "../x"}); !errors.Is(err, errUsage) {
		t.Errorf("the error is %v", err)
	}
	if err := run([]string{"record", dir}); !errors.Is(err, errUsage) {
		t.Errorf("the error is %v", err)
	}
}
