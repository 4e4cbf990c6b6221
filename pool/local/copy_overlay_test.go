package local

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// warm is a copy that is made and not yet called.
func warm(t *testing.T, d *Driver, tpl pool.Template) func(args ...any) []string {
	t.Helper()
	s, err := d.Start(t.Context(), tpl)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Destroy(context.Background(), s.ID()) })
	return func(args ...any) []string { return lookWith(t, s, tpl, args) }
}

func lookWith(t *testing.T, s pool.Sandbox, tpl pool.Template, args []any) []string {
	t.Helper()
	call, err := json.Marshal(map[string]any{"op": "call", "target": tpl.Copy.Target, "args": args, "kwargs": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(t.Context(), &wire.Request{Call: call, TimeoutSeconds: 10}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Value string `json:"value"`
	}
	if err := json.Unmarshal(res.Call, &said); err != nil || res.Outcome != wire.OK {
		t.Fatalf("%s %s: %v", res.Outcome, res.Call, err)
	}
	return strings.Split(said.Value, "\x1f")
}

func lookIn(t *testing.T, d *Driver, dir string) pool.Template {
	t.Helper()
	return copyOf(t, d, dir, "tools", "look", lineOf("look"))
}

// replace puts a file under a name by a rename, as editors do.
func replace(t *testing.T, p, text string) {
	t.Helper()
	if err := os.WriteFile(p+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p+".new", p); err != nil {
		t.Fatal(err)
	}
}

func in(dir string, names ...string) []any {
	var all []any
	for _, name := range names {
		all = append(all, filepath.Join(dir, name))
	}
	return all
}

// A file with a hidden name stays hidden when another is renamed over it while a
// copy is warm, and what is made under a well-known name is hidden as well.
func TestCopyHidesWhatIsReplaced(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{"tools.py": tools, ".env": "old", "deep/er/my.pem": "old", "data.txt": "old"})
	look := warm(t, d, lookIn(t, d, dir))
	names := []string{".env", "deep/er/my.pem", "token.json", "deep/er/.netrc", "data.txt", "settings.toml"}
	for _, name := range names {
		replace(t, filepath.Join(dir, name), "plant")
	}
	no := "no: FileNotFoundError"
	if seen := look(append(in(dir, names...), "/layers")...); !slices.Equal(seen, []string{no, no, no, no, "plant", "plant", ""}) {
		t.Errorf("the copy saw %q", seen)
	}
}

// The same holds for a program that is kept in an interpreter's folder, which
// copies see whole.
func TestCopyHidesWithinAnEnvironment(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{
		"pyvenv.cfg": "", "lib/python3/site-packages/x.py": "", "app/tools.py": tools + reaching, "app/.env": "old", "app/sub/id_rsa": "old", "app/data.txt": "old",
	})
	app := filepath.Join(dir, "app")
	within := func(tpl pool.Template) pool.Template {
		tpl.Copy.Prefixes = append([]string{dir}, tpl.Copy.Prefixes...)
		return tpl
	}
	look := warm(t, d, within(lookIn(t, d, app)))
	names := []string{".env", "sub/id_rsa", "token.json", "data.txt"}
	for _, name := range names {
		replace(t, filepath.Join(app, name), "plant")
	}
	no := "no: FileNotFoundError"
	if seen := look(in(app, names...)...); !slices.Equal(seen, []string{no, no, no, "plant"}) {
		t.Errorf("the copy saw %q", seen)
	}
	line, _, _ := strings.Cut(tools+reaching, "def reach(")
	reach := warm(t, d, within(copyOf(t, d, app, "tools", "reach", strings.Count(line, "\n")+1)))
	host := listen(t, filepath.Join(app, "late"))
	for _, said := range reach(host.at) {
		if strings.Contains(said, "reached") {
			t.Errorf("a copy says %q", said)
		}
	}
	host.silent(t)
}

// A hidden folder that holds a hidden file is hidden as a whole, and does not
// keep the rest from being hidden; an interpreter's environment stays as it is.
func TestCopyHidesFolders(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{
		"tools.py": tools, "deep/.env": "plant", "deep/a.txt": "plant", ".env": "plant",
		".venv/pyvenv.cfg": "", ".venv/lib/cacert.pem": "shown", ".venv/pip.conf": "plant",
	})
	if err := os.Symlink("deep", filepath.Join(dir, "token.json")); err != nil {
		t.Fatal(err)
	}
	tpl := lookIn(t, d, dir)
	tpl.Copy.Prefixes = append(slices.Clone(tpl.Copy.Prefixes), filepath.Join(dir, ".venv"))
	look := warm(t, d, tpl)
	replace(t, filepath.Join(dir, ".env"), "plant")
	no := "no: FileNotFoundError"
	seen := look(in(dir, "deep/a.txt", "deep/.env", ".env", ".venv/lib/cacert.pem", ".venv/pip.conf")...)
	if !slices.Equal(seen, []string{no, no, no, "shown", ""}) {
		t.Errorf("the copy saw %q", seen)
	}
}

// The tests above can fail: without overlays, the new file is there to be read.
func TestCopyWithoutOverlay(t *testing.T) {
	d := newDriver(t, func(o *Options) { o.Hook, o.Without = hookFolder(t), []string{"overlay"} })
	dir := project(t, map[string]string{"tools.py": tools, ".env": "old", "deep/.env": "old"})
	look := warm(t, d, lookIn(t, d, dir))
	replace(t, filepath.Join(dir, ".env"), "plant")
	if seen := look(append(in(dir, ".env", "deep/.env"), "/layers")...); !slices.Equal(seen, []string{"plant", "", ""}) {
		t.Errorf("the copy saw %q", seen)
	}
}

// The next copy of the same zygote sees what came since one before it looked.
func TestCopyHidesNothingNew(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{"tools.py": tools, "data.txt": "old"})
	args := in(dir, "data.txt", "new.txt")
	f := func(want ...string) {
		t.Helper()
		if seen := warm(t, d, lookIn(t, d, dir))(args...); !slices.Equal(seen, want) {
			t.Errorf("the copy saw %q", seen)
		}
	}
	f("old", "no: FileNotFoundError")
	replace(t, filepath.Join(dir, "data.txt"), "changed")
	replace(t, filepath.Join(dir, "new.txt"), "made")
	f("changed", "made")
}

// A folder that only its owner may enter stays closed with a hidden file in it:
// the folder of an overlay has the rights of the one above.
func TestCopyHidesPrivateFolders(t *testing.T) {
	d := newCopyDriver(t)
	dir := project(t, map[string]string{"tools.py": tools, "private/.env": "plant", "private/notes.txt": "plant"})
	if err := os.Chmod(filepath.Join(dir, "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := "no: PermissionError"
	if d.unprivileged { // the same user
		want = "plant"
	}
	seen := warm(t, d, lookIn(t, d, dir))(in(dir, "private/notes.txt")...)
	if seen[0] != want && (d.unprivileged || seen[0] != "no: FileNotFoundError") {
		t.Errorf("the copy saw %q", seen)
	}
}

// Sockets and named pipes of the program's folder lead nowhere, whether they
// were there before the copy or are made while it is warm.
func TestCopyHidesSocketsAndPipes(t *testing.T) {
	f := func(before, after bool, without ...string) {
		t.Helper()
		d := newDriver(t, func(o *Options) { o.Hook, o.Without = hookFolder(t), without })
		dir := project(t, map[string]string{"tools.py": tools + reaching, "sub/x.txt": ""})
		var host []*hostEnds
		if before {
			host = append(host, listen(t, filepath.Join(dir, "a")))
		}
		line, _, _ := strings.Cut(tools+reaching, "def reach(")
		reach := warm(t, d, copyOf(t, d, dir, "tools", "reach", strings.Count(line, "\n")+1))
		if after {
			host = append(host, listen(t, filepath.Join(dir, "sub/b")))
		}
		var args []any
		for _, h := range host {
			args = append(args, h.at)
		}
		for _, said := range reach(args...) {
			if strings.Contains(said, "reached") {
				t.Errorf("before %v, after %v, without %v: a copy says %q", before, after, without, said)
			}
		}
		for _, h := range host {
			h.silent(t)
		}
	}
	f(true, true)
	f(true, false, "overlay")
}

// reaching tries each of the host's ends.
const reaching = `
import socket

def reach(*ends):
    said = []
    for at in ends:
        for kind, name in ((socket.SOCK_STREAM, "stream"), (socket.SOCK_DGRAM, "datagram")):
            try:
                s = socket.socket(socket.AF_UNIX, kind)
                s.connect(at + name)
                s.send(b"x")
                said.append("reached " + name)
            except OSError as e:
                said.append(name + ": " + type(e).__name__)
        for flags in (os.O_RDONLY, os.O_WRONLY):
            try:
                fd = os.open(at + "pipe", flags | os.O_NONBLOCK)
                if flags == os.O_WRONLY:
                    os.write(fd, b"x")
                    said.append("reached pipe")
                elif os.read(fd, 1):
                    said.append("reached pipe")
                os.close(fd)
            except OSError as e:
                said.append("pipe: " + type(e).__name__)
    return "\x1f".join(said)
`

// hostEnds are a stream and a datagram socket and a named pipe that any user may use.
type hostEnds struct {
	at       string
	stream   *net.UnixListener
	datagram *net.UnixConn
	pipe     *os.File // both of its ends, with "host" in it
}

func listen(t *testing.T, at string) *hostEnds {
	t.Helper()
	h := &hostEnds{at: at}
	var err error
	if h.stream, err = net.ListenUnix("unix", &net.UnixAddr{Name: at + "stream", Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.stream.Close() })
	if h.datagram, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at + "datagram", Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.datagram.Close() })
	if err := syscall.Mkfifo(at+"pipe", 0o666); err != nil {
		t.Fatal(err)
	}
	if h.pipe, err = os.OpenFile(at+"pipe", os.O_RDWR|syscall.O_NONBLOCK, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.pipe.Close() })
	for _, name := range []string{"stream", "datagram", "pipe"} {
		if err := os.Chmod(at+name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.pipe.WriteString("host"); err != nil {
		t.Fatal(err)
	}
	return h
}

// silent fails when anything came, or what is in the pipe went.
func (h *hostEnds) silent(t *testing.T) {
	t.Helper()
	soon := time.Now().Add(50 * time.Millisecond)
	h.stream.SetDeadline(soon)
	h.datagram.SetDeadline(soon)
	if c, err := h.stream.Accept(); err == nil {
		c.Close()
		t.Errorf("%s: a connection came", h.at)
	}
	b := make([]byte, 10)
	if n, err := h.datagram.Read(b); err == nil {
		t.Errorf("%s: %d bytes came", h.at, n)
	}
	if n, err := h.pipe.Read(b); err != nil || string(b[:n]) != "host" {
		t.Errorf("%s: the pipe holds %q: %v", h.at, b[:n], err)
	}
}
