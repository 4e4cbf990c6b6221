package local

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func TestHoldsCredentials(t *testing.T) {
	f := func(names string, want bool) {
		t.Helper()
		for name := range strings.FieldsSeq(names) {
			if holdsCredentials(name) != want {
				t.Errorf("%s: %v", name, !want)
			}
		}
	}
	f("server.pem tls.KEY a.p12 id_rsa id_ed25519.pub credentials credentials.json aws-credentials.json client_secret_12.json", true)
	f("service-account.json service_account_prod.json secrets.toml secrets.yaml token.json token_v2.json app.keyring prod.env terraform.tfstate", true)
	for _, pattern := range credentialNames {
		if _, err := path.Match(pattern, ""); err != nil || pattern != strings.ToLower(pattern) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	// Code and data stay.
	f("secrets.py credentials.py main.py data.csv tokenizer.json keys.txt README.md environment.yml monkey.json tokens.md", false)
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
	v, err := lookAt(c, "/usr/lib", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".src/app/.env", ".src/other", ".venv/pip.conf", "old"}
	for i, name := range want {
		want[i] = filepath.Join(dir, name)
	}
	if !slices.Equal(v.masks, want) {
		t.Errorf("hidden are %v", v.masks)
	}
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
