package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Python is the interpreter that programs run in.
type Python struct {
	Executable string   `json:"executable"` // the real file, no shim
	Version    string   `json:"version"`
	Path       []string `json:"path"`     // sys.path
	Prefixes   []string `json:"prefixes"` // where it and its packages live
	// Packages are those of dataPackages that are installed.
	Packages []string `json:"packages"`
}

// dataPackages are what snippets import most: worth importing ahead of time
// where they are installed.
var dataPackages = []string{"numpy", "pandas"}

// findPython asks the interpreter called name, a path or a command, what it is.
const findPython = `
import json, platform, sys
if sys.version_info < (3, 8):
    print(json.dumps({"version": platform.python_version(), "supported": False}))
    sys.exit()
import importlib.util, os
prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, os.path.dirname(os.path.realpath(sys.executable))}
print(json.dumps({
    "executable": os.path.abspath(sys.executable),
    "version": platform.python_version(),
    "path": [os.path.abspath(p) for p in sys.path[1:] if p and os.path.exists(p) and p != os.getcwd()],
    "prefixes": sorted(prefixes | {os.path.dirname(os.path.abspath(sys.executable))}),
    "packages": [p for p in sys.argv[1:] if importlib.util.find_spec(p)],
    "supported": sys.version_info >= (3, 8) and sys.implementation.name == "cpython",
}))`

// LookPython finds the interpreter called name ("python3", or a path).
func LookPython(ctx context.Context, name string) (Python, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	path, err := exec.LookPath(name)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
		return Python{}, fmt.Errorf("%q is no Python: it is no program, or none that this user may run; name a CPython 3.8 or newer with --python", name)
	}
	if err != nil {
		if e, ok := errors.AsType[*exec.Error](err); ok {
			err = e.Err
		}
		return Python{}, fmt.Errorf("cannot find the Python interpreter %q: %w: install one, or name one with --python", name, err)
	}
	// A clean environment but for what a version manager's shim needs.
	cmd := exec.CommandContext(ctx, path, append([]string{"-"}, dataPackages...)...)
	cmd.Stdin = strings.NewReader(findPython)
	cmd.Dir = "/"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return Python{}, fmt.Errorf("%q is no Python, or one that does not work: name a CPython 3.8 or newer with --python; asked what it is, it ended with %w: %s",
			path, err, lastWords(stderr.String()))
	}
	var found struct {
		Python
		Supported bool `json:"supported"`
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return Python{}, fmt.Errorf("%q is no Python, or one that does not work: name a CPython 3.8 or newer with --python; what it says of itself cannot be read: %w", path, err)
	}
	if !found.Supported {
		return Python{}, fmt.Errorf("%q is version %s; CPython 3.8 or newer is needed: name one with --python", path, found.Version)
	}
	return found.Python, nil
}

// lastWords is the last line that a program wrote, which names what is wrong,
// unless it only repeats a line of findPython: that is no news.
func lastWords(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	for asked := range strings.Lines(findPython) {
		if asked = strings.TrimSpace(asked); last == asked || len(asked) > 5 && strings.Contains(last, asked) {
			return "it cannot read Python"
		}
	}
	return last[:min(len(last), 500)]
}

// rootPaths are what a sandbox sees of this machine, read-only: the system's
// programs and libraries, the interpreter and its packages, and the few files
// of /etc that libraries look up. Nothing of a home directory but an
// interpreter that lives in one.
func rootPaths(python Python) []string {
	paths := []string{
		"/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin",
		"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/fonts", "/etc/localtime",
		"/etc/mime.types", "/etc/nsswitch.conf", "/etc/protocols", "/etc/services", "/etc/ssl/certs", "/etc/timezone",
		"/nix/store",
	}
	for _, p := range append(python.Prefixes, python.Path...) {
		paths = addPath(paths, filepath.Clean(p))
	}
	return paths
}

// machinePaths are this machine's other folders, for tests that show what is
// kept from programs by not being among rootPaths.
func machinePaths() (paths []string) {
	// Their own, and one where the root can be put together.
	kept := []string{"/dev", "/etc", "/mnt", "/proc", "/run", "/scratch", "/sys", "/tmp", "/work"}
	all, _ := filepath.Glob("/*")
	for _, p := range append(all, "/etc/shadow", "/etc/hostname") {
		if !slices.Contains(kept, p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// addPath adds p unless a path above it is there.
func addPath(paths []string, p string) []string {
	if p == "/" {
		return paths
	}
	for _, have := range paths {
		if p == have || strings.HasPrefix(p, have+"/") {
			return paths
		}
	}
	return append(paths, p)
}
