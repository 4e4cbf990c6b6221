package local

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// hookFolder is the hook's source.
func hookFolder(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../toolproxy/hook/py")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func newCopyDriver(t testing.TB) *Driver {
	t.Helper()
	return newDriver(t, func(o *Options) { o.Hook = hookFolder(t) })
}

// project makes a folder that any user may read, with the given files.
func project(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// copyOf is the template of a function of a module in dir.
func copyOf(t testing.TB, d *Driver, dir, module, function string, line int) pool.Template {
	t.Helper()
	asJSON := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return pool.Template{Limits: wire.DefaultLimits(), DNS: "relay", Warm: 1, Copy: &wire.Copy{
		Python: d.opts.Python.Executable, Flags: []string{}, Prefixes: d.opts.Python.Prefixes, Program: []string{dir},
		Env: map[string]string{},
		Boot: asJSON(map[string]any{
			"cwd": dir, "argv0": "main.py", "sys_path": append([]string{dir}, d.opts.Python.Path...),
			"env":  map[string]any{"values": map[string]string{}, "names": map[string]any{"OPENAI_API_KEY": map[string]string{"shape": "opaque"}}},
			"main": map[string]string{"kind": "none"},
		}),
		Target: asJSON(map[string]any{"module": module, "qualname": function, "line": line, "ordinal": 0}),
	}}
}

// callOnce makes a copy and calls it.
func callOnce(t testing.TB, d *Driver, tpl pool.Template, seconds float64, args ...any) (*wire.Result, error) {
	t.Helper()
	ctx := context.Background()
	s, err := d.Start(ctx, tpl)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := d.Destroy(ctx, s.ID()); err != nil {
			t.Error(err)
		}
	}()
	call, err := json.Marshal(map[string]any{"op": "call", "target": tpl.Copy.Target, "args": append([]any{}, args...), "kwargs": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	return s.Run(ctx, &wire.Request{Call: call, TimeoutSeconds: seconds}, nil)
}

const tools = `import os, sys, time

def add(a, b):
    print("adding")
    return a + b

def boom(text):
    raise ValueError(text)

def forever():
    while True:
        time.sleep(1)

def leave():
    os._exit(3)

def hoard():
    parts = []
    while True:
        parts.append(bytearray(b"x" * (16 << 20)))

def look(*paths):
    seen = []
    for path in paths:
        try:
            seen.append(open(path).read() if os.path.isfile(path) else ",".join(sorted(os.listdir(path))))
        except OSError as e:
            seen.append("no: %s" % type(e).__name__)
    return "\x1f".join(seen)
`

// lineOf is the line of a function in tools, as Python counts.
func lineOf(function string) int {
	before, _, _ := strings.Cut(tools, "def "+function+"(")
	return strings.Count(before, "\n") + 1
}

func TestCopy(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{"tools.py": tools})
	ids := map[string]bool{}
	f := func(function string, seconds float64, outcome wire.Outcome, want string, args ...any) {
		t.Helper()
		res, err := callOnce(t, d, copyOf(t, d, dir, "tools", function, lineOf(function)), seconds, args...)
		if err != nil {
			t.Fatalf("%s: %v", function, err)
		}
		if res.Outcome != outcome || !strings.Contains(string(res.Call), want) {
			t.Errorf("%s ended with %s, %s %s", function, res.Outcome, res.Call, res.Reason)
		}
		ids[res.SandboxID] = true
	}
	// A value, and an exception.
	f("add", 5, wire.OK, `"value":5`, 2, 3)
	f("boom", 5, wire.Failed, `"type":"builtins:ValueError"`, "x")
	// Ends without a word.
	f("forever", 0.3, wire.Timeout, "")
	f("leave", 5, wire.Failed, "")
	f("hoard", 20, wire.OutOfMemory, "")
}

func TestCopyPrints(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{"tools.py": "print('at import' * 10000)\n" + tools})
	res, err := callOnce(t, d, copyOf(t, d, dir, "tools", "add", lineOf("add")+1), 5, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if res.Stdout != "adding\n" {
		t.Errorf("the call printed %q", clipped(res.Stdout))
	}
}

func clipped(s string) string { return s[:min(len(s), 200)] }

func TestCopyServesOnce(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{"tools.py": tools})
	s, err := d.Start(t.Context(), copyOf(t, d, dir, "tools", "add", lineOf("add")))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Destroy(context.Background(), s.ID())
	// A program is not for a copy.
	if _, err := s.Run(t.Context(), &wire.Request{Code: "print(1)"}, nil); err == nil {
		t.Error("a copy ran a program")
	}
	if _, err := s.Run(t.Context(), &wire.Request{Call: []byte(`{"op":"call"}`)}, nil); err == nil {
		t.Error("a copy was used twice")
	}
}

// What cannot be made ready is refused in words, and nothing ran.
func TestCopyRefused(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{
		"tools.py": tools, "broken.py": "import nothing_of_that_name\n", "dies.py": "import os; os._exit(1)\n",
		"big.py": "x = [bytearray(b'x' * (64 << 20)) for _ in range(64)]\n",
	})
	f := func(module, function, reason, says string) {
		t.Helper()
		_, err := callOnce(t, d, copyOf(t, d, dir, module, function, 1), 5)
		e := api.From(err)
		if err == nil || e.Code != api.Unsandboxable || e.Reason != reason || e.Executed != api.No || !strings.Contains(e.Message, says) {
			t.Errorf("%s.%s: %q %q %q: %v", module, function, e.Code, e.Reason, e.Executed, err)
		}
	}
	// There is no such function after the import.
	f("tools", "nothing", "made_at_run_time", "create it at module level")
	// The import fails, and says how.
	f("broken", "f", "import_failed", "nothing_of_that_name")
	// The import ends the process, or takes all the memory.
	f("dies", "f", "import_failed", "ended the sandbox's interpreter")
	f("big", "f", "import_memory", "--memory")
}

// A copy sees the program's code and no file that may hold a credential.
func TestCopySees(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{
		"tools.py": tools, "data/prices.csv": "1,2", ".env": "KEY=plant", "deep/er/.env": "KEY=plant", ".git/config": "plant",
		"server.pem": "plant", "credentials.json": "plant", "deep/token.json": "plant", "secrets/a.txt": "plant", "secrets.py": "pass",
		"id_rsa": "plant", "client_secret_1.json": "plant", "my.keyring": "plant", "node_modules/x/index.js": "plant",
	})
	if err := os.Symlink("data/prices.csv", filepath.Join(dir, "token.json")); err != nil {
		t.Fatal(err)
	}
	// Code is there, secrets.py too; a link with a bad name hides what it leads
	// to; the rest is empty, and of another's home there is nothing.
	looked := []string{"tools.py", "secrets.py", "data/prices.csv", ".env", "deep/er/.env", ".git", "server.pem", "credentials.json", "deep/token.json",
		"secrets", "id_rsa", "client_secret_1.json", "my.keyring", "node_modules", "../../root/.bashrc"}
	var args []any
	for _, name := range looked {
		args = append(args, filepath.Join(dir, name))
	}
	res, err := callOnce(t, d, copyOf(t, d, dir, "tools", "look", lineOf("look")), 5, args...)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Value string `json:"value"`
	}
	if err := json.Unmarshal(res.Call, &said); err != nil {
		t.Fatal(err)
	}
	seen := strings.Split(said.Value, "\x1f")
	if len(seen) != len(looked) || seen[0] != strings.TrimSpace(tools) && seen[0] != tools || seen[1] != "pass" {
		t.Fatalf("the copy saw %q", seen)
	}
	for i, text := range seen[2:] {
		if text != "" && text != "no: FileNotFoundError" {
			t.Errorf("the copy saw %q in %s", text, looked[i+2])
		}
	}
}

// A copy of a service that runs as root is another user, and says so.
func TestCopyOfAPrivateFolder(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{"tools.py": tools})
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := callOnce(t, d, copyOf(t, d, dir, "tools", "add", lineOf("add")), 5, 2, 3)
	if d.unprivileged != (err == nil) || err != nil && api.From(err).Reason != "folder_private" {
		t.Errorf("with rights %v: %v", !d.unprivileged, err)
	}
}

// A copy comes and goes as every sandbox does: it is watched, it can be
// destroyed twice, under a call too, and its death before the call is told.
func TestCopyIsWatched(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{"tools.py": tools})
	tpl := copyOf(t, d, dir, "tools", "forever", lineOf("forever"))
	events, err := d.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Start(t.Context(), tpl)
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.ID != s.ID() || e.Gone {
		t.Errorf("the watch tells %+v", e)
	}
	ended := make(chan error)
	go func() {
		_, err := s.Run(context.Background(), &wire.Request{Call: []byte(`{"op":"call","target":` + string(tpl.Copy.Target) + `}`)}, nil)
		ended <- err
	}()
	for range 2 {
		if err := d.Destroy(t.Context(), s.ID()); err != nil {
			t.Error(err)
		}
	}
	<-ended // whatever it says, it returned
	// One that dies while it waits.
	s, err = d.Start(t.Context(), tpl)
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.ID != s.ID() {
		t.Errorf("the watch tells %+v", e)
	}
	s.(*sandbox).kill()
	if e := <-events; e.ID != s.ID() || !e.Gone {
		t.Errorf("the watch tells %+v", e)
	}
	if err := d.Destroy(t.Context(), s.ID()); err != nil {
		t.Error(err)
	}
}
