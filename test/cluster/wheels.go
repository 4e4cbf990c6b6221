package cluster

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pipFlags are the flags that the Dockerfile installs packages with.
var pipFlags = []string{"--disable-pip-version-check", "--no-compile", "--only-binary", ":all:"}

// unpackWheels puts what the list requires, and what that requires, into the
// folder. Nothing is compiled from source, and the machine's own Python is
// only lent: pip comes from a virtual environment that is thrown away.
func unpackWheels(ctx context.Context, list, to, scratch string) error {
	venv := filepath.Join(scratch, "venv")
	if err := run(ctx, "/usr/bin/python3.11", "-m", "venv", venv); err != nil {
		return err
	}
	install := slices.Concat([]string{filepath.Join(venv, "bin", "pip"), "install", "-q"}, pipFlags, []string{"--target", to, "-r", list})
	if err := run(ctx, install...); err != nil {
		return err
	}
	if err := removeTests(to); err != nil {
		return err
	}
	root := strings.TrimSuffix(to, "/usr/local/lib/python3.11/dist-packages")
	return compileAll(ctx, root, to)
}

// removeTests removes the tests that packages ship, a quarter of their size.
func removeTests(dir string) error {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "tests" {
			found = append(found, path)
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, path := range found {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}
