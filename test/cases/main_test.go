// Package cases holds what public reports show breaking systems like this one,
// each row as a test against a running service, over HTTP only. Without the
// environment's CODE_SANDBOX_URL it builds and starts one of its own.
package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	binary string   // the program under test, built here
	python string   // an interpreter that has numpy, pandas and matplotlib
	shared *service // serves most rows
)

func TestMain(m *testing.M) {
	code, err := serveAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot test the cases:", err)
		code = 1
	}
	os.Exit(code)
}

func serveAndRun(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "cases")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "code-sandbox")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "../../cmd/code-sandbox").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("cannot build code-sandbox: %w: %s", err, out)
	}
	if python, err = environment(ctx); err != nil {
		return 1, err
	}
	if url := os.Getenv("CODE_SANDBOX_URL"); url != "" {
		shared = &service{url: url}
		return m.Run(), nil
	}
	if shared, err = start("--python", python); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, shared.stop()
}
