package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// Import imports a module in an interpreter of its own, without a sandbox. An
// error says what Python says.
func (p Python) Import(ctx context.Context, module string) error {
	cmd := exec.CommandContext(ctx, p.Executable, "-c", "import importlib, sys; importlib.import_module(sys.argv[1])", module)
	cmd.Dir = "/"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if err == nil {
		return nil
	}
	lines := bytes.Split(bytes.TrimSpace(stderr.Bytes()), []byte("\n"))
	if last := lines[len(lines)-1]; len(last) > 0 {
		err = errors.New(string(last))
	}
	return fmt.Errorf("cannot import %q in %s: %w", module, p.Executable, err)
}
