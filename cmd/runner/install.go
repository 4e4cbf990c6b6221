package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// install copies this program to dir/runner, which appears whole or not at all:
// the images that it is meant for have no program that could copy.
func install(dir string) (err error) {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("cannot open this program: %w", err)
	}
	defer source.Close()
	target, err := os.CreateTemp(dir, ".runner-*")
	if err != nil {
		return fmt.Errorf("cannot install into %q: %w", dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(target.Name()))
		}
	}()
	_, err = io.Copy(target, source)
	if err == nil {
		err = target.Chmod(0o555)
	}
	if err = errors.Join(err, target.Close()); err != nil {
		return fmt.Errorf("cannot copy this program into %q: %w", dir, err)
	}
	if err = os.Rename(target.Name(), filepath.Join(dir, "runner")); err != nil {
		return fmt.Errorf("cannot install into %q: %w", dir, err)
	}
	return nil
}
