package server

import (
	"path/filepath"
	"slices"

	"github.com/code-sandbox/code-sandbox/pool/runner/hidden"
)

// leads says whether a path of the program or of the interpreter is p or below.
func (f *finder) leads(p string) bool {
	inside := func(s string) bool { return hidden.Below(s, p) }
	return slices.ContainsFunc(f.program, inside) || slices.ContainsFunc(f.prefixes, inside)
}

// library says whether a path is of the interpreter's own parts, and not the
// program's, as in /usr/local/lib/agent.
func (f *finder) library(p string) bool {
	return slices.ContainsFunc(f.prefixes, func(prefix string) bool {
		return slices.ContainsFunc(hidden.Parts, func(part string) bool {
			part = filepath.Join(prefix, part)
			return hidden.Below(p, part) && !slices.ContainsFunc(f.own, func(own string) bool { return hidden.Below(own, part) && hidden.Below(p, own) })
		})
	})
}

// owned are the folders in the interpreter's parts that are the program's: those it
// names that no package and no library is in, with what of the part they are in.
func (f *finder) owned() (own []string) {
	for _, p := range f.program {
		if !f.library(p) || hidden.Library(p) {
			continue
		}
		for up := filepath.Dir(p); f.library(filepath.Dir(up)) && !hidden.Library(up); up = filepath.Dir(up) {
			p = up
		}
		own = append(own, p)
	}
	return own
}
