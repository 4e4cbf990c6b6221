package hidden

import "strings"

// Parts are folders of an interpreter that only packages put files into. They
// bring certificates, which are no secrets.
var Parts = []string{"bin", "lib", "lib64", "include", "share"}

// Packages says whether a folder of that name holds installed packages.
func Packages(name string) bool { return name == "site-packages" || name == "dist-packages" }

// Library says whether a folder that is in an interpreter's or in the system's is
// of installed programs or packages, or of Python's own library. Another one that
// a program names is its own: images keep programs in /usr/src and /usr/local/lib.
func Library(folder string) bool {
	parts := strings.Split(folder, "/")
	for i, part := range parts {
		switch {
		case part == "bin", part == "sbin", Packages(part):
			return true
		case part == "lib", part == "lib64":
			if i+1 == len(parts) || strings.HasPrefix(parts[i+1], "py") {
				return true
			}
		}
	}
	return false
}
