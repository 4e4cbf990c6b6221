package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
)

// The folder is as the injector's paths have it: what is on PYTHONPATH, and a
// program that can be started.
func TestLayHook(t *testing.T) {
	folder, program := t.TempDir(), "/bin/true"
	if err := layHook([]string{folder}, program); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"py/sitecustomize.py", "py/code_sandbox_hook/start.py"} {
		if s, err := os.Stat(filepath.Join(folder, name)); err != nil || s.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if out, err := exec.Command(filepath.Join(folder, "bin/runner")).CombinedOutput(); err != nil {
		t.Errorf("the runner cannot be started: %v: %s", err, out)
	}
	// A folder that is in use, a runner that is not there, and no folder.
	for _, f := range []struct {
		args   []string
		runner string
		want   error
	}{{[]string{folder}, program, os.ErrExist}, {[]string{t.TempDir()}, "/no/such/runner", os.ErrNotExist}, {nil, program, flags.ErrUsage}} {
		if err := layHook(f.args, f.runner); !errors.Is(err, f.want) {
			t.Errorf("%v: the error is %v", f.args, err)
		}
	}
}
