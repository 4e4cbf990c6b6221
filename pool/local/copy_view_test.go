package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A name that is no text would be hidden under another name, or stand for another folder.
func TestViewOfNamesThatAreNoText(t *testing.T) {
	for _, p := range []string{"/a/\xff", "/a/\uFFFD", "/a\x00b"} {
		for _, c := range []*wire.Copy{{Program: []string{p}}, {Prefixes: []string{p}}, {Python: p}} {
			if _, err := lookAt(c, "/usr/lib", nil, false); api.From(err).Reason != "folder_private" || !strings.Contains(err.Error(), "UTF-8") {
				t.Errorf("%q: %v", p, err)
			}
		}
	}
	for _, v := range []view{{paths: []string{"/a/\xff"}}, {masks: []string{"/a/\xff/.env"}}} {
		l := &looker{view: v}
		if _, err := l.finished(); api.From(err).Reason != "folder_private" || !strings.Contains(err.Error(), "UTF-8") {
			t.Error(err)
		}
	}
}

// see is the view of a program in dir, with home as the only home.
func see(home string, program ...string) (view, error) {
	c := &wire.Copy{Python: "/usr/bin/python3", Prefixes: []string{"/usr"}, Program: program}
	return lookAt(c, "/usr/lib", []string{home}, false)
}

func TestViewOfAHome(t *testing.T) {
	home := project(t, map[string]string{
		"agent.py": "", "notes.txt": "", ".bashrc": "", "id_rsa": "", "lib/__init__.py": "", "lib/.env": "", "lib/x.pem": "", "photos/a.jpg": "",
	})
	v, err := see(home, home)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) bool { return slices.Contains(v.paths, filepath.Join(home, name)) }
	if slices.Contains(v.paths, home) || !in("agent.py") || !in("lib") || in("notes.txt") || in("photos") || in("id_rsa") {
		t.Errorf("of a home, %v is shown", v.paths)
	}
	if want := []string{filepath.Join(home, "lib/.env"), filepath.Join(home, "lib/x.pem")}; !slices.Equal(v.masks, want) {
		t.Errorf("hidden are %v", v.masks)
	}
	// What holds a home is no program's folder either.
	if v, err = see(filepath.Join(home, "lib"), home); err != nil || slices.Contains(v.paths, home) {
		t.Errorf("a folder with a home in it is shown whole: %v, %v", v.paths, err)
	}
}

// An environment of the interpreter inside of the project is shown, though its
// name begins with a dot; another one is not.
func TestViewOfEnvironments(t *testing.T) {
	dir := project(t, map[string]string{
		".venv/pyvenv.cfg": "", ".venv/lib/certifi/cacert.pem": "", ".venv/pip.conf": "", "old/pyvenv.cfg": "", "old/lib/x.py": "",
		".src/app/main.py": "", ".src/app/.env": "", ".src/other/key.py": "",
	})
	c := &wire.Copy{Python: filepath.Join(dir, ".venv/bin/python"), Prefixes: []string{filepath.Join(dir, ".venv"), "/usr"}, Program: []string{dir, filepath.Join(dir, ".src/app")}}
	hides(t, dir, c, ".src/app/.env", ".src/other", ".venv/pip.conf", "old")
}

// hides looks at a copy whose program is in dir: just these names of it are hidden.
func hides(t *testing.T, dir string, c *wire.Copy, want ...string) {
	t.Helper()
	v, err := lookAt(c, "/usr/lib", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range want {
		want[i] = filepath.Join(dir, name)
	}
	if !slices.Equal(v.masks, want) {
		t.Errorf("hidden are %v", v.masks)
	}
}

// A program in the interpreter's own folder, as in /usr/src of an image, keeps
// its credentials; packages there bring theirs.
func TestViewOfAProgramWithinAPrefix(t *testing.T) {
	dir := project(t, map[string]string{
		"lib/python3.12/os.py": "", "lib/python3.12/site-packages/certifi/cacert.pem": "", "bin/python": "", "bin/key.pem": "",
		"src/app/main.py": "", "src/app/.env": "", "src/app/lib/tls.key": "", "src/app/secrets/x": "", "src/other/.env": "",
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	c := &wire.Copy{Python: in("bin/python"), Prefixes: []string{dir}, Program: []string{
		dir, in("bin"), in("lib/python3.12"), in("lib/python3.12/site-packages"), in("src/app"),
	}}
	hides(t, dir, c, "src/app/.env", "src/app/lib/tls.key", "src/app/secrets")
}

// What a hidden link at the top of an interpreter's folder leads to is hidden, also
// within that folder; the interpreter's own parts are not.
func TestViewOfLinksAtThePrefix(t *testing.T) {
	dir := project(t, map[string]string{
		"pyvenv.cfg": "", "lib/python3.12/site-packages/x.py": "", "bin/python": "", "app/main.py": "", "settings/prod": "", "conf/one": "",
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	for link, to := range map[string]string{".env": "settings/prod", "app/.env.local": "../settings/prod", "secrets": "conf", ".python": "bin/python", ".packages": "lib/python3.12"} {
		if err := os.Symlink(to, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	c := &wire.Copy{Python: in("bin/python"), Prefixes: []string{dir}, Program: []string{in("app")}}
	hides(t, dir, c, "conf", "settings/prod")
}

func TestViewIsBounded(t *testing.T) {
	files := map[string]string{}
	for i := range viewMasks + 1 {
		files[fmt.Sprintf("%d.pem", i)] = ""
	}
	f := func(reason string, c *wire.Copy) {
		t.Helper()
		_, err := lookAt(c, "/usr/lib", []string{"/home/someone"}, false)
		if e := api.From(err); err == nil || e.Code != api.Unsandboxable || e.Reason != reason || e.Executed != api.No {
			t.Errorf("%v", err)
		}
	}
	// More credentials than can be hidden.
	f("folder_too_large", &wire.Copy{Python: "/usr/bin/python3", Program: []string{project(t, files)}})
	// An interpreter whose folder is a home, or all homes.
	f("interpreter_place", &wire.Copy{Python: "/usr/bin/python3", Prefixes: []string{"/home"}})
}

// A link's name is kept, and what it leads to is shown.
func TestViewOfALink(t *testing.T) {
	dir := project(t, map[string]string{"real/main.py": ""})
	link := filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	v, err := see("/home/someone", link)
	if err != nil || v.links[link] != filepath.Join(dir, "real") || !slices.Contains(v.paths, filepath.Join(dir, "real")) {
		t.Errorf("%+v, %v", v, err)
	}
	// What leads nowhere, and what is no place for a program, is left out.
	v, err = see("/home/someone", "/proc/self", "relative", filepath.Join(dir, "missing"))
	if err != nil || len(v.links) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
