package hidden

import (
	"os"
	"path/filepath"
	"strings"
)

// Below says whether a path is a folder or inside of it. Both are clean.
func Below(p, folder string) bool {
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}

// Environment says whether a folder is a virtual environment.
func Environment(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, "pyvenv.cfg"))
	return err == nil
}
