package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/hidden"
)

func interpreterPlace(real, why string) error {
	return api.Errorf(api.Unsandboxable, "the interpreter's own folder is %q, which %s; use a virtual environment", real, why).Because("interpreter_place")
}

// interpreter shows a folder that the interpreter lives in. That it is one is
// told by its files, and not taken on the word of who asks.
func (l *looker) interpreter(p string) error {
	real, ok := l.real(p)
	if !ok || ofSystem(real) {
		return nil
	}
	entries, err := os.ReadDir(real)
	switch {
	case l.neverWhole(real):
		return interpreterPlace(real, "holds more than an interpreter")
	case hidden.Place(real):
		return interpreterPlace(real, "is a place of credentials")
	case err != nil:
		return interpreterPlace(real, "cannot be read")
	case !hidden.Environment(real) && !hasLibrary(real):
		return interpreterPlace(real, "holds no interpreter: neither pyvenv.cfg nor Python's own library is in it")
	}
	info, err := os.Stat(real)
	if err != nil {
		return interpreterPlace(real, "cannot be read")
	}
	if err := l.readable(real, info); err != nil {
		return err
	}
	l.paths = addPath(l.paths, real)
	l.prefixes = append(l.prefixes, real)
	return l.beside(real, entries)
}

// beside masks what of an interpreter's folder may hold a credential. What
// stands beside the parts of a virtual environment may be a project.
func (l *looker) beside(real string, entries []os.DirEntry) error {
	for _, e := range entries {
		p := filepath.Join(real, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0:
			l.maskTarget(p)
		case hidden.File(e.Name()), hidden.Folder(e.Name()):
			l.masks = append(l.masks, p)
		case e.IsDir() && hidden.Environment(real) && !slices.Contains(hidden.Parts, e.Name()):
			if err := l.walk(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasLibrary says whether Python's own library is in a prefix.
func hasLibrary(prefix string) bool {
	for _, lib := range []string{"lib", "lib64"} {
		entries, err := os.ReadDir(filepath.Join(prefix, lib))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if _, err := os.Lstat(filepath.Join(prefix, lib, e.Name(), "os.py")); err == nil && strings.HasPrefix(e.Name(), "py") {
				return true
			}
		}
	}
	return false
}

// executable shows the program of the interpreter where it is in none of the
// interpreter's folders: the file alone, and not what else is beside it.
func (l *looker) executable(p string) error {
	if folder, ok := l.real(filepath.Dir(p)); ok && (ofSystem(folder) || l.ofInterpreter(folder)) {
		return nil
	}
	delete(l.links, filepath.Clean(filepath.Dir(p)))
	real, ok := l.real(p)
	if !ok || ofSystem(real) || l.ofInterpreter(real) {
		return nil
	}
	info, err := os.Stat(real)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 || hidden.Place(real) || hidden.Credentials(filepath.Base(real)) {
		return interpreterPlace(filepath.Dir(real), "holds no interpreter where its program should be")
	}
	l.paths = append(l.paths, real)
	return nil
}
