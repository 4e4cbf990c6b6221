// Command cpython lays a CPython 3.14 into a folder: the one that a module for
// Go programs carries, since neither Debian 12 nor a version manager has one.
// It is a module of its own, so that nobody else downloads it.
package main

import (
	"fmt"
	"os"

	"github.com/kluctl/go-embed-python/python"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cpython FOLDER")
		os.Exit(2)
	}
	if _, err := python.NewEmbeddedPythonWithTmpDir(os.Args[1], false); err != nil {
		fmt.Fprintf(os.Stderr, "cannot lay Python into %q: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
