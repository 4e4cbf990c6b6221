package local

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// What a boot record names is shown for what it is, and not on trust: whoever
// asks for the service user's private folders is refused.
func TestViewOfPrivateFolders(t *testing.T) {
	home := project(t, map[string]string{
		".ssh/config": "", ".ssh/work": "", ".AWS/x/y": "", "app/secrets/key": "", "photos/a.jpg": "", "bin/run": "", "bin/notes": "",
		".ssh/venv/pyvenv.cfg": "", "app/main.py": "",
	})
	in := func(name string) string { return filepath.Join(home, name) }
	f := func(reason string, c *wire.Copy) {
		t.Helper()
		c.Python = cmp.Or(c.Python, "/usr/bin/python3")
		v, err := lookAt(c, "/usr/lib", []string{home}, false)
		if e := api.From(err); err == nil || e.Code != api.Unsandboxable || e.Reason != reason || e.Executed != api.No {
			t.Errorf("%v %v %v: %v, shown are %v", c.Python, c.Prefixes, c.Program, err, v.paths)
		}
	}
	// As the interpreter's folder.
	f("interpreter_place", &wire.Copy{Prefixes: []string{in(".ssh")}})
	f("interpreter_place", &wire.Copy{Prefixes: []string{in(".ssh/venv")}})
	f("interpreter_place", &wire.Copy{Prefixes: []string{in("photos")}})
	f("interpreter_place", &wire.Copy{Prefixes: []string{"/usr", in("app")}})
	f("interpreter_place", &wire.Copy{Prefixes: []string{in("photos/a.jpg")}})
	// As the folder of its program.
	f("interpreter_place", &wire.Copy{Python: in(".ssh/work")})
	f("interpreter_place", &wire.Copy{Python: in("bin/notes")})
	// As a folder or a file of the program.
	for _, name := range []string{".ssh", ".ssh/config", ".AWS/x", ".AWS/x/y", "app/secrets"} {
		f("folder_private", &wire.Copy{Program: []string{in("app"), in(name)}})
	}
	// By a link to it.
	link := filepath.Join(project(t, nil), "link")
	if err := os.Symlink(in(".ssh"), link); err != nil {
		t.Fatal(err)
	}
	f("folder_private", &wire.Copy{Program: []string{link}})
	f("interpreter_place", &wire.Copy{Prefixes: []string{link}})
}

// Of a hidden folder in a home, the code is shown and nothing else, but packages
// and interpreters that live there are.
func TestViewOfHiddenFoldersOfAHome(t *testing.T) {
	home := project(t, map[string]string{
		".work/agent.py": "", ".work/lib/__init__.py": "", ".work/notes": "", ".work/hosts.yml": "", "app/.own/a.py": "", "app/.own/b": "",
		".local/lib/python3.11/site-packages/p/__init__.py": "", ".pyenv/versions/3.12/lib/python3.12/os.py": "", ".pyenv/versions/3.12/bin/python": "", ".pyenv/version": "",
	})
	in := func(name string) string { return filepath.Join(home, name) }
	packages, prefix := in(".local/lib/python3.11/site-packages"), in(".pyenv/versions/3.12")
	c := &wire.Copy{
		Python: filepath.Join(prefix, "bin/python"), Prefixes: []string{prefix},
		Program: []string{in(".work"), in(".work/hosts.yml"), in("app/.own"), packages, filepath.Join(prefix, "lib/python3.12")},
	}
	v, err := lookAt(c, "/usr/lib", []string{home}, false)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, p := range v.paths {
		if name, ok := strings.CutPrefix(p, home+"/"); ok {
			shown = append(shown, name)
		}
	}
	want := []string{".local/lib/python3.11/site-packages", ".pyenv/versions/3.12", ".work/agent.py", ".work/lib", "app/.own/a.py"}
	if !slices.Equal(shown, want) {
		t.Errorf("shown are %q", shown)
	}
}

// A project that is its own virtual environment keeps its credentials, too.
func TestViewOfAnEnvironmentWithAProject(t *testing.T) {
	dir := project(t, map[string]string{
		"pyvenv.cfg": "", "bin/python": "", "lib/python3.12/site-packages/certifi/cacert.pem": "", "app/main.py": "", "app/server.key": "", "token.json": "", ".env": "",
		"secrets/x": "",
	})
	c := &wire.Copy{Python: filepath.Join(dir, "bin/python"), Prefixes: []string{dir, "/usr"}, Program: []string{dir}}
	hides(t, dir, c, ".env", "app/server.key", "secrets", "token.json")
}

// An interpreter's program outside of its folders is shown alone.
func TestViewOfAnExecutable(t *testing.T) {
	dir := project(t, map[string]string{"bin/python": "", "bin/other": ""})
	program := filepath.Join(dir, "bin/python")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	v, err := lookAt(&wire.Copy{Python: program, Prefixes: []string{"/usr"}}, "/usr/lib", nil, false)
	if err != nil || !slices.Contains(v.paths, program) || slices.Contains(v.paths, filepath.Join(dir, "bin")) {
		t.Errorf("%v, %v", v.paths, err)
	}
}

// A service that runs as root refuses an interpreter that others cannot read.
func TestViewOfAnInterpreterOfItsOwner(t *testing.T) {
	dir := project(t, map[string]string{"pyvenv.cfg": "", "bin/python": ""})
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := &wire.Copy{Python: filepath.Join(dir, "bin/python"), Prefixes: []string{dir}}
	if _, err := lookAt(c, "/usr/lib", nil, true); err == nil || api.From(err).Reason != "folder_private" {
		t.Errorf("%v", err)
	}
}
