package cases

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packages are pinned: a row that fails is then no matter of the day.
var packages = []string{"numpy==2.4.6", "pandas==3.1.1", "matplotlib==3.11.2"}

// environment makes a Python environment with packages once, and keeps it in
// the user's cache. It returns the environment's interpreter.
func environment(ctx context.Context) (string, error) {
	base, err := exec.CommandContext(ctx, "python3", "-c", "import sys; print(sys.executable, sys.version)").Output()
	if err != nil {
		return "", fmt.Errorf("cannot ask python3 what it is: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(string(base) + strings.Join(packages, " ")))
	dir := filepath.Join(cache, "code-sandbox-test", "venv-"+hex.EncodeToString(sum[:6]))
	interpreter := filepath.Join(dir, "bin", "python3")
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return interpreter, nil
	}
	steps := [][]string{
		{"python3", "-m", "venv", "--clear", dir},
		append([]string{interpreter, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"}, packages...),
	}
	for _, step := range steps {
		if out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot make a Python environment with %v: %w: %s", packages, err, out)
		}
	}
	return interpreter, os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644)
}
