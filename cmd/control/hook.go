package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/toolproxy/hook"
)

// runnerPath is where the product's image has the program that runs in every
// image.
const runnerPath = "/usr/local/bin/runner"

// layHook is "control hook FOLDER": the injector has an init container do it.
// FOLDER/py goes on PYTHONPATH; FOLDER/bin/runner is for what runs from the
// agents' own images.
func layHook(args []string, runner string) error {
	if len(args) != 1 {
		return fmt.Errorf("%w: control hook takes a folder, which must be empty", flags.ErrUsage)
	}
	if err := hook.Lay(filepath.Join(args[0], "py")); err != nil {
		return err
	}
	bin := filepath.Join(args[0], "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return fmt.Errorf("cannot lay out the runner: %w", err)
	}
	if err := copyProgram(runner, filepath.Join(bin, "runner")); err != nil {
		return fmt.Errorf("cannot lay out the runner: %w", err)
	}
	return nil
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
