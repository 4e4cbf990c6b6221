// Package python holds the Python side of a run, which executes inside the
// sandbox beside hostile code.
package python

import (
	_ "embed"
	"slices"
)

//go:embed causes.py
var causes []byte

//go:embed bootstrap.py
var bootstrap []byte

// Bootstrap is the module that runs one program in a started interpreter: two files in
// one source, since some interpreters get it by a descriptor and find no other beside it.
var Bootstrap = slices.Concat(causes, []byte("\n\n"), bootstrap)

// Pod is the program that makes the interpreter of a pod ready. It finds what it
// is told under the name "told".
//
//go:embed pod.py
var Pod []byte
