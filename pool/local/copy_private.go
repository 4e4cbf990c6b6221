package local

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

func credentialPlace(real string) error {
	return api.Errorf(api.Unsandboxable, "the program names %q, which is a place of credentials, and no sandbox sees those; "+
		"keep the program in another folder, and start it from there", real).Because("folder_private")
}

// hiddenPlace says whether a path is hidden by its name, or in a hidden folder
// of a home, where programs keep what is not the program. Of these no more than
// code is shown. Installed packages are elsewhere by intent only.
func (l *looker) hiddenPlace(real string) bool {
	parts := strings.Split(real, "/")
	if slices.Contains(parts, "site-packages") || slices.Contains(parts, "dist-packages") {
		return false
	}
	if strings.HasPrefix(filepath.Base(real), ".") {
		return true
	}
	return slices.ContainsFunc(l.homes, func(home string) bool { return strings.HasPrefix(real, home+"/.") })
}

// isCode says whether a file is one that Python imports from.
func isCode(file string) bool {
	return slices.Contains([]string{".py", ".pyc", ".pyz", ".zip", ".egg", ".whl", ".so"}, filepath.Ext(file))
}
