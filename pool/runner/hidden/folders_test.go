package hidden

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBelow(t *testing.T) {
	f := func(p, folder string, want bool) {
		t.Helper()
		if Below(p, folder) != want {
			t.Errorf("%s below %s: %v", p, folder, !want)
		}
	}
	f("/app", "/app", true)
	f("/app/x/y", "/app", true)
	f("/app", "/", true)
	f("/", "/", true)
	// A longer name, the folder that it is in, and another one.
	f("/apps", "/app", false)
	f("/app", "/app/x", false)
	f("/", "/app", false)
	f("/srv", "/app", false)
}

// A link is one as well: to where it leads is for whoever goes there to judge.
func TestEnvironment(t *testing.T) {
	f := func(want bool, lay func(dir string) error) {
		t.Helper()
		dir := t.TempDir()
		if err := lay(dir); err != nil {
			t.Fatal(err)
		}
		if Environment(dir) != want {
			t.Errorf("an environment: %v", !want)
		}
	}
	f(false, func(string) error { return nil })
	f(true, func(dir string) error { return os.WriteFile(filepath.Join(dir, "pyvenv.cfg"), nil, 0o600) })
	f(true, func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, "pyvenv.cfg")) })
	f(false, func(dir string) error { return os.MkdirAll(filepath.Join(dir, "venv/pyvenv.cfg"), 0o700) })
	if Environment("/no/such/folder") {
		t.Error("what is not there is an environment")
	}
}
