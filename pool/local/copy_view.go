package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Bounds on what is looked at to find what a copy may see.
const (
	viewEntries = 100_000 // files and folders of the program
	viewMasks   = 1000    // of them hidden
	viewBytes   = 96 << 10
	viewModules = 500 // shown one by one of a folder that is never shown whole
)

// view is what a copy sees of this machine.
type view struct {
	paths []string          // shown read-only; what they name is real, not a link
	links map[string]string // names that lead to them
	masks []string          // hidden again
}

// looker puts a view together.
type looker struct {
	view
	homes    []string
	other    bool     // copies run as another user than the service
	prefixes []string // of the interpreter
	program  []string // real paths of the program
	seen     int
}

// lookAt decides what a copy sees: the system, the interpreter, the hook and
// the folders of the program, less what may hold a credential. An error is an
// *api.Error.
func lookAt(c *wire.Copy, hook string, homes []string, other bool) (view, error) {
	l := &looker{homes: homes, other: other}
	l.links, l.masks = map[string]string{}, []string{}
	l.paths = rootPaths(Python{})
	for _, p := range append(slices.Clone(c.Prefixes), filepath.Dir(c.Python)) {
		if err := l.interpreter(p); err != nil {
			return view{}, err
		}
	}
	l.add(hook)
	for _, p := range c.Program {
		if real, ok := l.real(p); ok {
			l.program = append(l.program, real)
		}
	}
	for _, p := range l.program {
		if err := l.show(p); err != nil {
			return view{}, err
		}
	}
	return l.finished()
}

func (l *looker) finished() (view, error) {
	slices.Sort(l.paths) // a folder before what is in it
	l.paths = slices.Compact(l.paths)
	slices.Sort(l.masks)
	l.masks = slices.Compact(l.masks)
	size := 0
	for _, p := range append(slices.Clone(l.paths), l.masks...) {
		size += len(p)
	}
	for from := range l.links {
		size += 2 * len(from)
	}
	if len(l.masks) > viewMasks || size > viewBytes {
		return view{}, tooMuch("holds %d files whose names may mean credentials", len(l.masks))
	}
	return l.view, nil
}

func tooMuch(format string, n int) error {
	return api.Errorf(api.Unsandboxable, "the program's folder "+format+
		", more than can be hidden from a sandbox; start the agent in a folder of its own, with its code and little else", n).Because("folder_too_large")
}

// real is where p leads, with the name p as a link to it. Nothing is there
// when ok is false.
func (l *looker) real(p string) (_ string, ok bool) {
	p = filepath.Clean(p)
	if !filepath.IsAbs(p) {
		return "", false
	}
	real, err := filepath.EvalSymlinks(p)
	if err != nil || below(real, "/proc") || below(real, "/sys") {
		return "", false
	}
	if real != p {
		l.links[p] = real
	}
	return real, true
}

// add shows a path whole, as it is.
func (l *looker) add(p string) {
	if real, ok := l.real(p); ok {
		l.paths = addPath(l.paths, real)
	}
}

// interpreter shows a folder that the interpreter lives in.
func (l *looker) interpreter(p string) error {
	real, ok := l.real(p)
	if !ok || slices.ContainsFunc(systemFolders, func(s string) bool { return below(real, s) }) {
		return nil
	}
	if l.neverWhole(real) {
		return api.Errorf(api.Unsandboxable, "the interpreter's own folder is %q, which holds more than an interpreter; use a virtual environment", real).Because("interpreter_place")
	}
	l.paths = addPath(l.paths, real)
	l.prefixes = append(l.prefixes, real)
	entries, err := os.ReadDir(real)
	if err != nil {
		return nil // not readable for us, and so not for a copy
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Name() == "pip.conf" {
			l.masks = append(l.masks, filepath.Join(real, e.Name()))
		}
	}
	return nil
}

// systemFolders are shown to every sandbox.
var systemFolders = []string{"/usr", "/bin", "/lib", "/lib64", "/sbin", "/nix/store"}

// show shows a file or folder of the program.
func (l *looker) show(real string) error {
	info, err := os.Stat(real)
	switch {
	case err != nil, l.ofInterpreter(real), slices.ContainsFunc(systemFolders, func(s string) bool { return below(real, s) }):
		return nil
	case !info.IsDir():
		if !holdsCredentials(filepath.Base(real)) && !strings.HasPrefix(filepath.Base(real), ".") {
			l.paths = append(l.paths, real)
		}
		return nil
	case l.neverWhole(real):
		return l.modules(real)
	}
	if err := l.readable(real, info); err != nil {
		return err
	}
	l.paths = append(l.paths, real)
	if base := filepath.Base(real); base == "site-packages" || base == "dist-packages" {
		return nil // packages bring certificates, which are no secrets
	}
	return l.walk(real)
}

// modules shows the modules and packages of a folder, and nothing else of it.
func (l *looker) modules(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	shown := 0
	for _, e := range entries {
		p := filepath.Join(folder, e.Name())
		_, err := os.Lstat(filepath.Join(p, "__init__.py"))
		isPackage := e.IsDir() && err == nil
		if !isPackage && (!e.Type().IsRegular() || filepath.Ext(p) != ".py") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if shown++; shown > viewModules {
			return tooMuch("holds more than %d modules", viewModules)
		}
		l.paths = append(l.paths, p)
		if isPackage {
			if err := l.walk(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// walk masks what of a folder may hold a credential.
func (l *looker) walk(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	if l.seen += len(entries); l.seen > viewEntries {
		return tooMuch("holds more than %d files", viewEntries)
	}
	for _, e := range entries {
		p := filepath.Join(folder, e.Name())
		hidden := strings.HasPrefix(e.Name(), ".")
		switch {
		case e.Type()&os.ModeSymlink != 0:
			l.maskTarget(p, hidden || holdsCredentials(e.Name()))
		case !e.IsDir():
			if hidden || holdsCredentials(e.Name()) {
				l.masks = append(l.masks, p)
			}
		case slices.Contains(l.prefixes, p):
			// The interpreter's environment, inside of the project.
		case hidden || hiddenFolders[strings.ToLower(e.Name())] || isEnvironment(p):
			if err := l.onlyNeeded(p); err != nil {
				return err
			}
		default:
			if err := l.walk(p); err != nil {
				return err
			}
		}
		if len(l.masks) > viewMasks {
			return tooMuch("holds more than %d files whose names may mean credentials", viewMasks)
		}
	}
	return nil
}

// maskTarget hides what a link leads to, where its own name says so.
func (l *looker) maskTarget(p string, hidden bool) {
	if real, err := filepath.EvalSymlinks(p); err == nil && hidden && !l.ofInterpreter(real) && !l.leads(real) {
		l.masks = append(l.masks, real)
	}
}

// onlyNeeded masks a hidden folder, but for what of the program or the
// interpreter is inside.
func (l *looker) onlyNeeded(folder string) error {
	if !l.leads(folder) {
		l.masks = append(l.masks, folder)
		return nil
	}
	if slices.Contains(l.program, folder) {
		return l.walk(folder)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		p := filepath.Join(folder, e.Name())
		if slices.Contains(l.prefixes, p) {
			continue
		}
		if err := l.onlyNeeded(p); err != nil {
			return err
		}
	}
	return nil
}

// leads says whether a path of the program or of the interpreter is p or below.
func (l *looker) leads(p string) bool {
	inside := func(s string) bool { return below(s, p) }
	return slices.ContainsFunc(l.program, inside) || slices.ContainsFunc(l.prefixes, inside)
}

func (l *looker) ofInterpreter(p string) bool {
	return slices.ContainsFunc(l.prefixes, func(s string) bool { return below(p, s) })
}

// isEnvironment says whether a folder is a virtual environment.
func isEnvironment(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, "pyvenv.cfg"))
	return err == nil
}
