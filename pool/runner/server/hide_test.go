package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// image is a folder with those files in it, each with a byte, and those links.
func image(t *testing.T, files string, links map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(files) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func noHomes(t *testing.T) {
	before := homes
	homes = nil
	t.Cleanup(func() { homes = before })
}

// covers are those of a program in dir/app, with an interpreter in dir/venv.
func covers(t *testing.T, dir string, files, folders string, program ...string) {
	t.Helper()
	if program == nil {
		program = []string{"app"}
	}
	c := &wire.Copy{Prefixes: []string{filepath.Join(dir, "venv")}, Boot: json.RawMessage(`{}`)}
	for _, p := range program {
		c.Program = append(c.Program, filepath.Join(dir, p))
	}
	found, err := findHidden(c)
	if err != nil {
		t.Fatal(err)
	}
	f := func(what string, got []string, want string) {
		t.Helper()
		var names []string
		for _, p := range got {
			// The machine's own root is looked at, too.
			if name, ok := strings.CutPrefix(p, dir+"/"); ok {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if wanted := strings.Fields(want); !slices.Equal(names, wanted) {
			t.Errorf("%s are %q, want %q", what, names, wanted)
		}
	}
	f("files", found.Files, files)
	f("folders", found.Folders, folders)
}

// What is hidden on one machine is hidden in pods: every variant of .env, nested,
// as a folder, in capitals, and all other names of credentials.
func TestFindHidden(t *testing.T) {
	noHomes(t)
	const code = " app/main.py app/lib/x.py app/data.csv app/secrets.py app/environment.yml"
	f := func(more string, links map[string]string, files, folders string) {
		t.Helper()
		covers(t, image(t, code+" "+more, links), files, folders)
	}
	f("", nil, "", "")
	f("app/.env app/.env.local app/.env.production app/.env.prod.eu app/.ENV app/.Env.Local", nil,
		"app/.ENV app/.Env.Local app/.env app/.env.local app/.env.prod.eu app/.env.production", "")
	f("app/deep/er/.env app/deep/er/.envrc app/prod.env app/PROD.Env", nil, "app/PROD.Env app/deep/er/.env app/deep/er/.envrc app/prod.env", "")
	f("app/.env/one app/deep/.ENV/two app/Secrets/three", nil, "", "app/.env app/Secrets app/deep/.ENV")
	f("app/tls.key app/id_rsa app/credentials.json app/token.json", nil, "app/credentials.json app/id_rsa app/tls.key app/token.json", "")
	// Links hide what they lead to, wherever that is.
	f("settings/prod conf/a", map[string]string{"app/.env": "../settings/prod", "app/secrets": "../conf"}, "settings/prod", "conf")
	f("settings/prod", map[string]string{"app/current": "../settings/prod", "app/.env": "nowhere"}, "", "")
	// What is outside of the program's folders is not looked at.
	f("other/.env", nil, "", "")
	// Packages bring certificates.
	f("app/site-packages/certifi/cacert.pem", nil, "", "")
}

// The interpreter stays whole, wherever it is and whatever it is named; what of a
// project stands beside its parts does not.
func TestFindHiddenAtThePrefix(t *testing.T) {
	noHomes(t)
	const venv = "venv/pyvenv.cfg venv/bin/python venv/lib/python3/site-packages/certifi/cacert.pem venv/share/x.pem "
	// The program is the environment's own folder.
	dir := image(t, venv+"venv/main.py venv/.env venv/sub/.env venv/settings/prod", map[string]string{
		"venv/.env.local": "settings/prod", "venv/.python": "bin/python", "venv/.packages": "lib/python3",
	})
	covers(t, dir, "venv/.env venv/settings/prod venv/sub/.env", "", "venv")
	// The environment is in the program's folder.
	dir = image(t, "app/main.py app/.venv/pyvenv.cfg app/.venv/lib/x.py app/.venv/.env app/old/pyvenv.cfg app/old/x.py", nil)
	c := &wire.Copy{Prefixes: []string{filepath.Join(dir, "app/.venv")}, Program: []string{filepath.Join(dir, "app")}, Boot: json.RawMessage(`{}`)}
	if found, err := findHidden(c); err != nil || found.Len() != 2 || found.Folders[0] != filepath.Join(dir, "app/old") || found.Files[0] != filepath.Join(dir, "app/.venv/.env") {
		t.Errorf("%+v, %v", found, err)
	}
	// The program is elsewhere, and a project is beside the environment's parts.
	dir = image(t, venv+"app/main.py venv/pip.conf venv/project/.env venv/secrets/x", nil)
	covers(t, dir, "venv/pip.conf venv/project/.env", "venv/secrets")
	// An interpreter's folder that is no environment, as /usr/local of images.
	dir = image(t, "app/main.py venv/bin/python venv/lib/python3/os.py venv/.env venv/src/other/.env", nil)
	covers(t, dir, "venv/.env", "")
	// The program is in a hidden folder.
	covers(t, image(t, ".src/app/main.py .src/app/.env .src/other/key", nil), ".src/app/.env", ".src/other", ".", ".src/app")
}

// A program that an image keeps in the interpreter's folders is looked at, as on one
// machine; what is beside it there is the interpreter's.
func TestFindHiddenInTheInterpretersParts(t *testing.T) {
	noHomes(t)
	const parts = "venv/bin/python venv/bin/.env venv/lib/python3/os.py venv/lib/python3/x.pem venv/lib/python3/site-packages/certifi/cacert.pem venv/lib/other/.env venv/share/.env " +
		"venv/lib/node_modules/x.js "
	f := func(more string, links map[string]string, files, folders string, program ...string) {
		t.Helper()
		covers(t, image(t, parts+more, links), files, folders, program...)
	}
	f("venv/lib/agent/main.py venv/lib/agent/.env venv/lib/agent/conf/tls.pem venv/lib/agent/.aws/credentials", nil,
		"venv/lib/agent/.env venv/lib/agent/conf/tls.pem", "venv/lib/agent/.aws", "venv/lib/agent")
	f("venv/share/agent/main.py venv/share/agent/.env", nil, "venv/share/agent/.env", "", "venv/share/agent")
	f("venv/lib64/agent/main.py venv/lib64/agent/.env venv/include/x/.env", nil, "venv/include/x/.env venv/lib64/agent/.env", "", "venv/lib64/agent", "venv/include/x")
	// With links in it, and to the interpreter.
	f("venv/lib/agent/settings/prod", map[string]string{"venv/lib/agent/.env": "settings/prod", "venv/lib/agent/.lib": "../python3"},
		"venv/lib/agent/settings/prod", "", "venv/lib/agent")
	// It is in a project there.
	f("venv/lib/agent/src/main.py venv/lib/agent/.env venv/lib/agent/.git/config", nil, "venv/lib/agent/.env", "venv/lib/agent/.git", "venv/lib/agent/src")
	// What sys.path names of the interpreter itself.
	f("", nil, "", "", "venv/bin", "venv/lib", "venv/lib/python3", "venv/lib/python3/site-packages", "venv/lib/python3/site-packages/certifi")
	// An environment in that program's folder.
	dir := image(t, parts+"venv/lib/agent/.venv/pyvenv.cfg venv/lib/agent/.venv/lib/python3/x.pem venv/lib/agent/.venv/.env", nil)
	c := &wire.Copy{Prefixes: []string{filepath.Join(dir, "venv"), filepath.Join(dir, "venv/lib/agent/.venv")}, Program: []string{filepath.Join(dir, "venv/lib/agent")},
		Boot: json.RawMessage(`{}`)}
	if found, err := findHidden(c); err != nil || !slices.Equal(found.Files, []string{filepath.Join(dir, "venv/lib/agent/.venv/.env")}) || len(found.Folders) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// Above the program's folder stand the settings of the project that it is in; other
// folders there are not looked into.
func TestFindHiddenAboveTheProgram(t *testing.T) {
	noHomes(t)
	f := func(files, wantFiles, wantFolders string, program ...string) {
		t.Helper()
		covers(t, image(t, files, nil), wantFiles, wantFolders, program...)
	}
	f("app/src/main.py app/.env app/tls.pem app/README.md", "app/.env app/tls.pem", "", "app/src")
	f("app/a/b/main.py .env app/.env.local app/a/prod.env", ".env app/.env.local app/a/prod.env", "", "app/a/b")
	f("app/src/main.py app/.git/config app/secrets/x app/docs/.env app/other/secrets/x", "", "app/.git app/secrets", "app/src")
	f("app/src/agent.zip app/src/.env app/.env", "app/.env app/src/.env", "", "app/src/agent.zip")
	// A hidden folder that the program is in stays, for what of it is needed.
	f("app/.src/agent/main.py app/.src/key app/.env", "app/.env app/.src/key", "", "app/.src/agent")
	// The interpreter's environment is above or beside.
	f("venv/pyvenv.cfg venv/lib/python3/x.pem src/main.py .env", ".env", "", "src")
	f("venv/pyvenv.cfg venv/lib/python3/x.pem venv/src/main.py venv/.env", "venv/.env", "", "venv/src")
}

// What is inside of a hidden folder is hidden with it, however it was found.
func TestFindHiddenIsOutermost(t *testing.T) {
	dir := image(t, "app/streamlit/secrets.toml app/streamlit/sub/.env app/main.py home/a/.aws/credentials home/a/.aws/sso/token.json",
		map[string]string{"app/.streamlit": "streamlit", "app/credentials": "../home/a/.aws/credentials"})
	before := homes
	homes = []string{filepath.Join(dir, "home/*")}
	t.Cleanup(func() { homes = before })
	covers(t, dir, "", "app/streamlit home/a/.aws")
}

// A link in a hidden folder never hides the interpreter that it leads to.
func TestFindHiddenLeavesTheInterpreter(t *testing.T) {
	noHomes(t)
	covers(t, image(t, "venv/bin/python .local/app/main.py .local/bin/key conf/one", map[string]string{
		".local/python": "../venv/bin/python", ".local/current": "../venv", ".local/conf": "../conf",
	}), "", ".local/bin conf", ".local/app")
}

// The working folder and that of the main program are the boot record's.
func TestFindHiddenByTheBootRecord(t *testing.T) {
	noHomes(t)
	dir := image(t, "cwd/.env main/.env main/main.py", nil)
	boot, err := json.Marshal(map[string]any{"cwd": filepath.Join(dir, "cwd"), "main": map[string]string{"path": filepath.Join(dir, "main/main.py")}})
	if err != nil {
		t.Fatal(err)
	}
	found, failure := findHidden(&wire.Copy{Boot: boot})
	if failure != nil || !slices.Equal(found.Files, []string{filepath.Join(dir, "main/.env"), filepath.Join(dir, "cwd/.env")}) {
		t.Errorf("%+v, %v", found, failure)
	}
}

// A record of which no folder can be read is refused: what is in those would not be
// looked at.
func TestBootRecordWithoutFolders(t *testing.T) {
	dir := image(t, "venv/bin/python main/main.py", nil)
	python, main := filepath.Join(dir, "venv/bin/python"), filepath.Join(dir, "main/main.py")
	f := func(want api.Code, cwd any) {
		t.Helper()
		boot, err := json.Marshal(map[string]any{"cwd": cwd, "main": map[string]string{"path": main}})
		if err != nil {
			t.Fatal(err)
		}
		failure := inImage(&wire.Copy{Python: python, Boot: boot})
		if failure == nil {
			failure = &api.Error{}
		}
		if failure.Code != want {
			t.Errorf("%+v", failure)
		}
	}
	f("", dir)
	f("", "")
	f(api.BadRequest, 7)
	f(api.BadRequest, []string{dir})
}

// Homes show no credentials, and otherwise what they hold.
func TestFindHiddenInHomes(t *testing.T) {
	dir := image(t, "home/a/.aws/credentials home/a/.netrc home/a/.bashrc home/a/notes.txt home/a/key.py home/b/.ssh/id_rsa app/main.py", nil)
	before := homes
	homes = []string{filepath.Join(dir, "home/*")}
	t.Cleanup(func() { homes = before })
	covers(t, dir, "home/a/.netrc", "home/a/.aws home/b/.ssh")
}

// What is empty is covered already.
func TestFindHiddenKnowsWhatIsCovered(t *testing.T) {
	noHomes(t)
	dir := image(t, "app/main.py app/.env app/.git/config", nil)
	if err := os.Truncate(filepath.Join(dir, "app/.env"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "app/.git/config")); err != nil {
		t.Fatal(err)
	}
	covers(t, dir, "", "")
}

func TestFindHiddenIsBounded(t *testing.T) {
	noHomes(t)
	f := func(reason string, files string) {
		t.Helper()
		_, err := findHidden(&wire.Copy{Program: []string{image(t, files, nil)}, Boot: json.RawMessage(`{}`)})
		if err == nil || err.Code != api.Unsandboxable || err.Reason != reason || err.Executed != api.No {
			t.Errorf("got %v", err)
		}
	}
	var many strings.Builder
	for i := range hideMost + 1 {
		fmt.Fprintf(&many, "%d.pem ", i)
	}
	f("folder_too_large", many.String())
	f("folder_private", "a:b.pem")
	f("folder_private", "\xff.pem")
	f("folder_private", strings.Repeat("0123456789/", 50)+"x.pem")
}
