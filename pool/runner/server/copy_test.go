package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/client"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const toolsSource = `import os, sys, time

def add(a, b):
    print("adding")
    return a + b

def boom(text):
    raise ValueError(text)

def leave():
    os._exit(3)

def forever():
    while True:
        time.sleep(1)

def environment():
    return dict(os.environ)

def seen():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found[pid] = open("/proc/%s/environ" % pid).read()
        except OSError as e:
            found[pid] = type(e).__name__
    return found

def count(n):
    for i in range(n):
        yield i
`

// imageFolder is a folder of an image, which everybody may read.
func imageFolder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := folder(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// programOf is a function of tools.py in dir.
func programOf(t testing.TB, dir, function string) *wire.Copy {
	t.Helper()
	out, err := exec.Command("/usr/bin/python3", "-I", "-c", "import json, sys; print(json.dumps(sys.path))").Output()
	var path []string
	if err == nil {
		err = json.Unmarshal(out, &path)
	}
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(toolsSource, "def "+function+"(")
	return &wire.Copy{
		Python: "/usr/bin/python3", Flags: []string{}, Prefixes: []string{"/usr"}, Program: []string{dir}, Env: map[string]string{"LC_ALL": "C"},
		Boot: asJSON(t, map[string]any{
			"cwd": dir, "argv0": "main.py", "sys_path": append([]string{dir}, path...), "main": map[string]string{"kind": "none"},
			"env": map[string]any{"values": map[string]string{"LC_ALL": "C"}, "names": map[string]any{"PORT": map[string]string{"shape": "int"}}},
		}),
		Target: asJSON(t, map[string]any{"module": "tools", "qualname": function, "line": strings.Count(before, "\n") + 1, "ordinal": 0}),
	}
}

func asJSON(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// startCopy starts the pod of a copy with those variables in its image, and gives
// its proof.
func startCopy(t testing.TB, environ ...string) (*pod, *client.Conn) {
	t.Helper()
	p := startPodBy(t, func(cmd *exec.Cmd) error { cmd.Env = append(cmd.Env, environ...); return cmd.Start() },
		func(c *wire.RunnerConfig) { c.Copy, c.Work, c.Python = true, "", "" })
	return p, p.freshCopy()
}

// freshCopy connects to the runner of a copy, and has its proof.
func (p *pod) freshCopy() *client.Conn {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	conn, err := client.Connect(ctx, p.config.Address, p.secret)
	if err != nil {
		p.t.Fatalf("%v; the runner said: %s", err, p.log.String())
	}
	p.t.Cleanup(func() { conn.Close() })
	if fresh, err := conn.Fresh(ctx, wire.Proof{}); err != nil || !fresh.Fresh {
		p.t.Fatalf("%+v, %v; the runner said: %s", fresh, err, p.log.String())
	}
	return conn
}

func frameOf(t testing.TB, c *wire.Copy, stream bool, args ...any) json.RawMessage {
	t.Helper()
	return asJSON(t, map[string]any{"op": "call", "target": c.Target, "args": append([]any{}, args...), "kwargs": map[string]any{}, "stream": stream})
}

// callCopy makes a copy and calls it, once.
func callCopy(t testing.TB, function string, seconds float64, sink wire.Sink, args ...any) *wire.Result {
	t.Helper()
	p, conn := startCopy(t, "API_KEY=sk-of-the-image")
	program := programOf(t, imageFolder(t, map[string]string{"tools.py": toolsSource}), function)
	if _, err := conn.Prepare(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	res, err := conn.Run(t.Context(), &wire.Request{Call: frameOf(t, program, sink != nil, args...), TimeoutSeconds: seconds}, sink)
	if err != nil {
		t.Fatal(err)
	}
	p.waitGone(10 * time.Second)
	return res
}

// A call ends as in local mode.
func TestCopyCalls(t *testing.T) {
	f := func(function string, seconds float64, outcome wire.Outcome, word string, args ...any) {
		t.Helper()
		res := callCopy(t, function, seconds, nil, args...)
		if res.Outcome != outcome || !strings.Contains(string(res.Call), word) || word == "" && res.Call != nil || res.Isolation != "pod" {
			t.Errorf("%s: %s (%s), exit %d, word %s, stderr %q", function, res.Outcome, res.Reason, res.ExitCode, res.Call, res.Stderr)
		}
		if function == "add" && res.Stdout != "adding\n" {
			t.Errorf("stdout is %q", res.Stdout)
		}
	}
	f("add", 10, wire.OK, `"value":42`, 40, 2)
	f("boom", 10, wire.Failed, `"builtins:ValueError"`, "no")
	f("leave", 10, wire.Failed, "")
	f("forever", 1, wire.Timeout, "")
}

// A generator's items come one by one.
func TestCopyStreams(t *testing.T) {
	var items []string
	res := callCopy(t, "count", 10, func(s wire.Stream, text string) { items = append(items, string(s)+text) }, 3)
	if res.Outcome != wire.OK || !slices.Equal(items, []string{"item0", "item1", "item2"}) {
		t.Errorf("%s (%s), items %q", res.Outcome, res.Reason, items)
	}
}

// What the image has baked in reaches no copy: neither its environment, nor that
// of process 1 or of another one that it can see. Values that may cross do.
func TestCopyHidesTheImageEnvironment(t *testing.T) {
	environ := []string{"API_KEY=sk-of-the-image", "LOG_LEVEL=debug", "SSL_CERT_FILE=https://a:sk-of-the-image@b", "LC_ALL=en_US", "PORT=of-the-image",
		"PYTHONPATH=/of-the-image", "LD_PRELOAD=", "KUBERNETES_SERVICE_HOST=of-the-image"}
	f := func(function string, check func(value map[string]string)) {
		t.Helper()
		_, conn := startCopy(t, environ...)
		program := programOf(t, imageFolder(t, map[string]string{"tools.py": toolsSource}), function)
		if _, err := conn.Prepare(t.Context(), program); err != nil {
			t.Fatal(err)
		}
		res, err := conn.Run(t.Context(), &wire.Request{Call: frameOf(t, program, false), TimeoutSeconds: 10}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(res.Call), "of-the-image") || strings.Contains(string(res.Call), "of-the-pod") {
			t.Errorf("%s sees %s", function, res.Call)
		}
		var word struct {
			OK    bool
			Value map[string]string
		}
		if err := json.Unmarshal(res.Call, &word); err != nil || !word.OK {
			t.Fatalf("%s: %s, %v", function, res.Call, err)
		}
		check(word.Value)
	}
	f("environment", func(env map[string]string) {
		for name, want := range map[string]string{"LOG_LEVEL": "debug", "LC_ALL": "C", "API_KEY": "code-sandbox-redacted", "SSL_CERT_FILE": "code-sandbox-redacted", "PORT": "0"} {
			if env[name] != want {
				t.Errorf("%s is %q, want %q", name, env[name], want)
			}
		}
		for _, name := range []string{"PYTHONPATH", "LD_PRELOAD", "KUBERNETES_SERVICE_HOST", wire.RunnerEnv} {
			if value, ok := env[name]; ok {
				t.Errorf("%s is %q", name, value)
			}
		}
		if home := env["HOME"]; home == "" || home != env["TMPDIR"] {
			t.Errorf("HOME is %q", home)
		}
	})
	f("seen", func(processes map[string]string) {
		if processes["1"] != "PermissionError" && processes["1"] != "" {
			t.Errorf("process 1 shows %q", processes["1"])
		}
	})
}

// Of an image that shows what may hold a credential nothing is imported: the pod
// is told what to cover, and the runner ends. Where all is covered, it goes on.
func TestCopyMustCover(t *testing.T) {
	p, conn := startCopy(t)
	dir := imageFolder(t, map[string]string{"tools.py": toolsSource, ".env.local": "KEY=1", "empty.pem": "", "marker.py": ""})
	covers, err := conn.Prepare(t.Context(), programOf(t, dir, "add"))
	if err != nil || !reflect.DeepEqual(covers, wire.Covers{Files: []string{filepath.Join(dir, ".env.local")}}) {
		t.Errorf("%+v, %v", covers, err)
	}
	p.waitGone(10 * time.Second)
	if err := os.WriteFile(filepath.Join(dir, ".env.local"), nil, 0o644); err != nil { // as a mount would have it
		t.Fatal(err)
	}
	_, conn = startCopy(t)
	if covers, err := conn.Prepare(t.Context(), programOf(t, dir, "add")); err != nil || covers.Len() > 0 {
		t.Errorf("%+v, %v", covers, err)
	}
}

// What cannot be copied is refused in our words, and the runner ends.
func TestCopyIsRefused(t *testing.T) {
	f := func(reason, words string, change func(c *wire.Copy)) {
		t.Helper()
		p, conn := startCopy(t)
		program := programOf(t, imageFolder(t, map[string]string{"tools.py": toolsSource, "broken.py": "import no_such_module\n", "ends.py": "import os\nos._exit(7)\n"}), "add")
		change(program)
		_, err := conn.Prepare(t.Context(), program)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.Unsandboxable || e.Reason != reason || e.Executed != api.No || !strings.Contains(e.Message, words) {
			t.Errorf("got %+v", err)
		}
		p.waitGone(10 * time.Second)
		// What it says of the program is its caller's alone.
		if strings.Contains(p.log.String(), "no_such_module") {
			t.Errorf("the runner said: %s", p.log.String())
		}
	}
	// An image without Python, or with one elsewhere.
	f("interpreter_missing", `no interpreter at "/opt/venv/bin/python"`, func(c *wire.Copy) { c.Python = "/opt/venv/bin/python" })
	// What has that name is none.
	f("interpreter_missing", "does not start", func(c *wire.Copy) { c.Python = "/etc/hostname" })
	// One that ends before it says anything.
	f("import_failed", "ended the sandbox's interpreter", func(c *wire.Copy) { c.Python = "/bin/false" })
	// T17: the program came by a volume.
	f("code_on_volume", `no main program at "/srv/none/main.py"`, func(c *wire.Copy) {
		c.Boot = json.RawMessage(`{"main":{"kind":"path","path":"/srv/none/main.py"}}`)
	})
	f("folder_private", "runAsUser", func(c *wire.Copy) {
		c.Boot = json.RawMessage(`{"main":{"kind":"path","path":"/etc/shadow"}}`)
	})
	// The program itself does not let itself be imported.
	f("import_failed", "no_such_module", func(c *wire.Copy) {
		c.Target = json.RawMessage(`{"module":"broken","qualname":"f","line":1,"ordinal":0}`)
	})
	f("import_failed", "ended", func(c *wire.Copy) {
		c.Target = json.RawMessage(`{"module":"ends","qualname":"f","line":1,"ordinal":0}`)
	})
}

// The program comes after the proof, over the connection that it was given on,
// and once.
func TestCopyOrder(t *testing.T) {
	p := startPod(t, func(c *wire.RunnerConfig) { c.Copy, c.Work, c.Python = true, "", "" })
	dir := imageFolder(t, map[string]string{"tools.py": toolsSource})
	program := programOf(t, dir, "add")
	connect := func() *client.Conn {
		t.Helper()
		conn, err := client.Connect(t.Context(), p.config.Address, p.secret)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	conflicts := func(_ any, err error) {
		t.Helper()
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.Conflict {
			t.Errorf("got %v", err)
		}
	}
	conflicts(connect().Prepare(t.Context(), program))
	conflicts(connect().Run(t.Context(), &wire.Request{Call: frameOf(t, program, false)}, nil))
	shown := connect()
	if fresh, err := shown.Fresh(t.Context(), wire.Proof{}); err != nil || !fresh.Fresh {
		t.Fatal(fresh, err)
	}
	conflicts(connect().Prepare(t.Context(), program))
	if _, err := shown.Prepare(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	if _, err := connect().Fresh(t.Context(), wire.Proof{}); err == nil {
		t.Error("it is fresh again")
	}
	// A program is no call.
	if _, err := connect().Run(t.Context(), &wire.Request{Code: "print(1)"}, nil); err == nil {
		t.Error("a program was run in a copy")
	}
	res, err := shown.Run(t.Context(), &wire.Request{Call: frameOf(t, program, false, 1, 2), TimeoutSeconds: 10}, nil)
	if err != nil || !strings.Contains(string(res.Call), `"value":3`) {
		t.Errorf("%+v, %v", res, err)
	}
	p.waitGone(10 * time.Second)
}
