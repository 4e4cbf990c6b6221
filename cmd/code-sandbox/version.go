package main

import "runtime/debug"

// release is set by the linker in released builds.
var release string

// version is the release, or the commit this program was built from.
func version() string {
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
