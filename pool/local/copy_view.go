package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/hidden"
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
	paths   []string          // shown read-only; what they name is real, not a link
	folders []string          // those of them that are shown by overlays
	links   map[string]string // names that lead to them
	masks   []string          // hidden again
}

// noText is a path that is not text, or was not before it came as JSON, where
// such bytes become U+FFFD; "" when all are.
func noText(c *wire.Copy) string {
	all := slices.Concat([]string{c.Python}, c.Prefixes, c.Program)
	i := slices.IndexFunc(all, func(p string) bool { return strings.ContainsAny(p, "\uFFFD\x00") || !utf8.ValidString(p) })
	if i < 0 {
		return ""
	}
	return all[i]
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
	if p := noText(c); p != "" {
		return view{}, api.Errorf(api.Unsandboxable, "the path %q of the program or its interpreter is not UTF-8, so that another may be meant; rename it", p).
			Because("folder_private")
	}
	l := &looker{homes: homes, other: other}
	l.links, l.masks, l.folders = map[string]string{}, []string{}, []string{}
	l.paths = rootPaths(Python{})
	for _, p := range c.Prefixes {
		if err := l.interpreter(p); err != nil {
			return view{}, err
		}
	}
	if err := l.executable(c.Python); err != nil {
		return view{}, err
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
	slices.Sort(l.folders)
	l.folders = slices.Compact(l.folders)
	slices.Sort(l.masks)
	l.masks = slices.Compact(l.masks)
	size := 0
	for _, p := range slices.Concat(l.paths, l.folders, l.masks) {
		if !utf8.ValidString(p) { // it would be hidden by another name than it has
			return view{}, api.Errorf(api.Unsandboxable, "the path %q of the program is not UTF-8, so that what is private there cannot be hidden; rename it", p).
				Because("folder_private")
		}
		size += len(p)
	}
	for from := range l.links {
		size += 2 * len(from)
	}
	if len(l.masks) > viewMasks || size > viewBytes {
		return view{}, tooMuch("holds %d files that may be credentials, sockets or pipes", len(l.masks))
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
	if err != nil || hidden.Below(real, "/proc") || hidden.Below(real, "/sys") {
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

// systemFolders are shown to every sandbox.
var systemFolders = []string{"/usr", "/bin", "/lib", "/lib64", "/sbin", "/nix/store"}

func ofSystem(p string) bool {
	return slices.ContainsFunc(systemFolders, func(s string) bool { return hidden.Below(p, s) })
}

// show shows a file or folder of the program.
func (l *looker) show(real string) error {
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return nil
	case l.ofInterpreter(real), ofSystem(real):
		return l.within(real, info)
	case hidden.Place(real):
		return credentialPlace(real)
	case !info.IsDir():
		if !hidden.File(filepath.Base(real)) && (!l.hiddenPlace(real) || isCode(real)) {
			l.paths = append(l.paths, real)
		}
		return nil
	case l.neverWhole(real), l.hiddenPlace(real):
		return l.modules(real)
	}
	if err := l.readable(real, info); err != nil {
		return err
	}
	l.folder(real)
	if hidden.Packages(filepath.Base(real)) {
		return nil // packages bring certificates, which are no secrets
	}
	return l.walk(real)
}

// within shows a folder of the program once more, less what may hold a
// credential, where it is shown whole already, with the system or the interpreter
// that it is in: images keep programs in /usr/src/app. What those brought
// themselves is none of the program's.
func (l *looker) within(real string, info os.FileInfo) error {
	if !info.IsDir() || hidden.Library(real) || slices.ContainsFunc(slices.Concat(systemFolders, l.prefixes), func(p string) bool { return hidden.Below(p, real) }) {
		return nil
	}
	l.folder(real)
	return l.walk(real)
}

// folder shows a folder of the program whole.
func (l *looker) folder(p string) {
	l.paths = append(l.paths, p)
	l.folders = append(l.folders, p)
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
		if !isPackage {
			l.paths = append(l.paths, p)
		} else {
			l.folder(p)
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
		switch {
		case e.Type()&os.ModeSymlink != 0:
			l.maskTarget(p)
		case !e.IsDir():
			if hidden.File(e.Name()) || leadsOut(e.Type()) {
				l.masks = append(l.masks, p)
			}
		case slices.Contains(l.prefixes, p):
			// The interpreter's environment, inside of the project.
		case hidden.Folder(e.Name()) || hidden.Environment(p):
			if err := l.onlyNeeded(p); err != nil {
				return err
			}
		default:
			if err := l.walk(p); err != nil {
				return err
			}
		}
		if len(l.masks) > viewMasks {
			return tooMuch("holds more than %d files that may be credentials, sockets or pipes", viewMasks)
		}
	}
	return nil
}

// maskTarget hides what a link leads to, where its own name says so.
func (l *looker) maskTarget(p string) {
	if name := filepath.Base(p); !hidden.File(name) && !hidden.Folder(name) {
		return
	}
	if real, err := filepath.EvalSymlinks(p); err == nil && !l.partOfInterpreter(real) && !l.leads(real) {
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
	inside := func(s string) bool { return hidden.Below(s, p) }
	return slices.ContainsFunc(l.program, inside) || slices.ContainsFunc(l.prefixes, inside)
}

func (l *looker) ofInterpreter(p string) bool {
	return slices.ContainsFunc(l.prefixes, func(s string) bool { return hidden.Below(p, s) })
}

// partOfInterpreter says whether a path is of the interpreter's own files. What
// else is in its folder may be a project.
func (l *looker) partOfInterpreter(p string) bool {
	return slices.ContainsFunc(l.prefixes, func(s string) bool {
		return slices.ContainsFunc(hidden.Parts, func(part string) bool { return hidden.Below(p, filepath.Join(s, part)) })
	})
}

// leadsOut says whether a file is one that another process may answer at.
func leadsOut(t os.FileMode) bool {
	return t&(os.ModeSocket|os.ModeNamedPipe|os.ModeDevice) != 0
}
