package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/code-sandbox/code-sandbox/toolproxy/hook"
)

// install lays out what a sandbox is given: this program, the tool-call hook's
// files, and an empty file and folder that cover others. The images that it is meant for
// have no program that could copy. The runner comes last: where it is, all is.
func install(dir string) error {
	folder := filepath.Join(dir, "hook")
	err := os.Mkdir(folder, 0o755)
	if err == nil || errors.Is(err, os.ErrExist) {
		err = hook.Lay(folder)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "empty"), nil, 0o644)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "none"), 0o755)
	}
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("cannot install into %q: %w", dir, err)
	}
	return installRunner(dir)
}

// installRunner copies this program to dir/runner, which appears whole or not at all.
func installRunner(dir string) (err error) {
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
