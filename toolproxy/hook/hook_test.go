package hook

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// All modules are laid, packages included, and nothing else.
func TestLay(t *testing.T) {
	folder := t.TempDir()
	if err := Lay(folder); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sitecustomize.py", "runcopy.py", "code_sandbox_hook/__init__.py", "code_sandbox_hook/copy/__init__.py", "code_sandbox_hook/frameworks/table.py"} {
		want, err := os.ReadFile(filepath.Join("py", name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Ext(name) != ".py" {
			t.Errorf("%s was laid", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
