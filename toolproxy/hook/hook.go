// Package hook holds the tool-call hook: the Python files that are loaded into
// an agent's process and into its copies. PROTOCOL.md says what they speak.
package hook

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

//go:embed all:py
var files embed.FS

// Lay writes the hook's files into folder, which must be empty. The folder is
// what goes on PYTHONPATH.
func Lay(folder string) error {
	err := fs.WalkDir(files, "py", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(folder, filepath.FromSlash(name[len("py"):]))
		switch {
		case entry.IsDir() && entry.Name() == "__pycache__":
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(to, 0o755)
		case path.Ext(name) != ".py":
			return nil
		}
		content, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, content, 0o644)
	})
	if err != nil {
		return fmt.Errorf("cannot lay out the tool-call hook: %w", err)
	}
	return nil
}
