// Package python holds the Python side of a run, which executes inside the
// sandbox beside hostile code.
package python

import _ "embed"

// Bootstrap is the module that runs one program in a started interpreter.
//
//go:embed bootstrap.py
var Bootstrap []byte

// Pod is the program that makes the interpreter of a pod ready. It finds what it
// is told under the name "told".
//
//go:embed pod.py
var Pod []byte
