package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// record writes variables of this process's environment into a folder, a file
// each. Started from an agent's image with nothing added, it tells what the
// image itself sets.
func record(dir string, names []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot record the environment: %w", err)
	}
	for _, name := range names {
		if strings.ContainsRune(name, filepath.Separator) {
			return fmt.Errorf("%w: %q is no name of a variable", errUsage, name)
		}
		value, set := os.LookupEnv(name)
		if !set {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("cannot record the environment: %w", err)
		}
	}
	return nil
}
