// Package version says which version this program is.
package version

import "runtime/debug"

// release is set by the linker in released builds: -X ...
var release string

// Of is the release, or the commit this program was built from.
func Of() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "0.1.0-dev+" + s.Value[:12]
		}
	}
	return "0.1.0-dev"
}
