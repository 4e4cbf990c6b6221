package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/hidden"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Bounds on what is looked at to find what a copy may not see.
const (
	hideEntries = 100_000 // files and folders of the program
	hideMost    = 256     // of them hidden: each is a mount of the pod
	hidePath    = 512     // bytes of a path that is mounted at
	lookEntries = 1000    // of a folder that is hidden if it holds anything
)

// systemPlaces of an image are walked only where the program itself is below.
var systemPlaces = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr", "/var",
}

// homes are the folders, as patterns, in which programs keep their credentials.
var homes = []string{"/root", "/home/*"}

// finder finds what of an image may hold a credential and can be read: by the same
// list as on one machine, in the folders of the program, and in homes.
type finder struct {
	prefixes, program []string // real paths
	own               []string // those of the program in the interpreter's parts
	above             []string // looked at, as what the program is in
	found             wire.Covers
	seen              int
}

// findHidden looks at the image as the program would see it. What is found, the
// pod must cover: nothing of this process can.
func findHidden(c *wire.Copy) (wire.Covers, *api.Error) {
	f := &finder{prefixes: realPaths(c.Prefixes), program: realPaths(append(placesOf(c), c.Program...))}
	f.own = f.owned()
	for _, p := range f.program {
		if f.seen <= hideEntries {
			f.root(p)
		}
	}
	for _, p := range f.prefixes {
		f.beside(p)
	}
	for _, pattern := range homes {
		all, err := filepath.Glob(pattern)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		for _, home := range all {
			f.home(home)
		}
	}
	return f.bounded()
}

// placesOf are the working folder and that of the main program.
func placesOf(c *wire.Copy) (places []string) {
	cwd, main, err := c.Folders()
	if err != nil {
		return nil // inImage has refused it
	}
	if main != "" {
		places = append(places, filepath.Dir(main))
	}
	return append(places, cwd)
}

func realPaths(all []string) (found []string) {
	for _, p := range all {
		if real, err := filepath.EvalSymlinks(p); err == nil && filepath.IsAbs(real) && !slices.Contains(found, real) {
			found = append(found, real)
		}
	}
	return found
}

func (f *finder) bounded() (wire.Covers, *api.Error) {
	all := f.found.Outermost()
	if f.seen > hideEntries || all.Len() > hideMost {
		return all, api.Errorf(api.Unsandboxable, "the program's folders in the image hold %d files or more, and %d that may be credentials, "+
			"more than can be hidden from a copy; start the agent in a folder of its own, with its code and little else", f.seen, all.Len()).Because("folder_too_large")
	}
	for _, p := range slices.Concat(all.Files, all.Folders) {
		if len(p) > hidePath || strings.ContainsAny(p, ":\x00") || !utf8.ValidString(p) {
			return all, api.Errorf(api.Unsandboxable, "the image's %q may hold a credential, and its path is one that nothing can be mounted at; rename or remove it", p).
				Because("folder_private")
		}
	}
	return all, nil
}

// root looks at a folder or file of the program, unless it is one of the system's,
// or of the interpreter's own parts.
func (f *finder) root(p string) {
	base := filepath.Base(p)
	info, err := os.Stat(p)
	switch {
	case err != nil, f.library(p), slices.Contains(systemPlaces, p), hidden.Packages(base):
		return
	case info.IsDir():
		f.walk(p)
	case hidden.File(base):
		f.add(p)
	}
	f.around(p)
}

// around looks at the folders that the program is in, up to the image's root: it
// may be a part of a project, whose settings stand at the top.
func (f *finder) around(p string) {
	for p != "/" {
		p = filepath.Dir(p)
		if !slices.Contains(f.above, p) && !f.library(p) && !hidden.Packages(filepath.Base(p)) {
			f.above = append(f.above, p)
			f.look(p, func(string) {})
		}
	}
}

func (f *finder) walk(folder string) { f.look(folder, f.walk) }

// beside looks at what stands beside the interpreter's own parts: in a virtual
// environment that may be a project.
func (f *finder) beside(prefix string) {
	into := func(string) {}
	if hidden.Environment(prefix) {
		into = f.walk
	}
	f.look(prefix, into)
}

// look looks at the entries of a folder, and goes into those that are folders.
func (f *finder) look(folder string, into func(string)) {
	if slices.Contains(systemPlaces, folder) {
		return
	}
	entries, err := os.ReadDir(folder)
	f.seen += len(entries)
	if err != nil || f.seen > hideEntries { // nor can the program list it
		return
	}
	for _, e := range entries {
		f.entry(filepath.Join(folder, e.Name()), e, into)
	}
}

// entry hides an entry of a folder, goes into it, or leaves it.
func (f *finder) entry(p string, e fs.DirEntry, into func(string)) {
	name := e.Name()
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		if hidden.File(name) || hidden.Folder(name) {
			f.target(p)
		}
	case !e.IsDir():
		if hidden.File(name) {
			f.add(p)
		}
	case slices.Contains(f.prefixes, p), slices.Contains(systemPlaces, p), f.library(p), hidden.Packages(name):
	case hidden.Folder(name), hidden.Environment(p):
		f.onlyNeeded(p)
	default:
		into(p)
	}
}

// onlyNeeded hides a folder, but for what of the program or the interpreter is
// inside.
func (f *finder) onlyNeeded(folder string) {
	switch {
	case !f.leads(folder):
		f.add(folder)
		return
	case slices.Contains(f.program, folder):
		return // it is looked at by itself
	}
	entries, err := os.ReadDir(folder)
	if f.seen += len(entries); err != nil || f.seen > hideEntries {
		return
	}
	for _, e := range entries {
		switch p := filepath.Join(folder, e.Name()); {
		case slices.Contains(f.prefixes, p):
		case e.Type()&fs.ModeSymlink != 0:
			f.target(p)
		default:
			f.onlyNeeded(p)
		}
	}
}

// target hides what a link leads to: over the link itself nothing can be mounted.
func (f *finder) target(link string) {
	if real, err := filepath.EvalSymlinks(link); err == nil && !f.leads(real) && !f.library(real) {
		f.add(real)
	}
}

// home hides what programs keep in homes under well-known names. All else there
// is as in other folders of the image: the program may be among it.
func (f *finder) home(home string) {
	for _, name := range slices.Concat(hidden.Future, hidden.Places) {
		f.target(filepath.Join(home, name))
	}
}

// add takes note of what can be read and is not empty: what is covered already is.
func (f *finder) add(p string) {
	info, err := os.Stat(p)
	switch {
	case err != nil, slices.Contains(f.found.Files, p), slices.Contains(f.found.Folders, p):
	case info.IsDir():
		left := lookEntries
		if holdsAny(p, &left) {
			f.found.Folders = append(f.found.Folders, p)
		}
	case info.Mode().IsRegular() && info.Size() > 0 && syscall.Access(p, readable) == nil:
		f.found.Files = append(f.found.Files, p)
	}
}

// holdsAny says whether a folder has a file that can be read; one that is too
// large to tell does.
func holdsAny(folder string, left *int) bool {
	entries, err := os.ReadDir(folder)
	if err != nil {
		// Its names are not told, but a file of a known name could be opened.
		return syscall.Access(folder, searchable) == nil
	}
	for _, e := range entries {
		p := filepath.Join(folder, e.Name())
		if *left--; *left < 0 {
			return true
		}
		if e.IsDir() {
			if holdsAny(p, left) {
				return true
			}
			continue
		}
		if info, err := os.Stat(p); err == nil && !info.IsDir() && info.Size() > 0 && syscall.Access(p, readable) == nil {
			return true
		}
	}
	return false
}

// searchable is X_OK of access(2).
const searchable = 1
