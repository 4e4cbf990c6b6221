package local

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/hidden"
)

// sharedFolders are never shown whole, as homes are not: more than one program
// keeps its files there.
var sharedFolders = []string{"/", "/etc", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/var", "/var/tmp", "/dev/shm"}

// neverWhole says whether a folder is a home, or holds homes or the files of
// many programs.
func (l *looker) neverWhole(folder string) bool {
	return slices.Contains(sharedFolders, folder) || slices.ContainsFunc(l.homes, func(h string) bool { return hidden.Below(h, folder) })
}

// readable refuses a folder that another user cannot read, when copies run as
// one: those of a service that runs as root.
func (l *looker) readable(folder string, info os.FileInfo) error {
	if !l.other || info.Mode().Perm()&0o005 == 0o005 {
		return nil
	}
	return api.Errorf(api.Unsandboxable, "only its owner can read the folder %q, and a sandbox of a service that runs as root is another user; "+
		"let others read it (chmod o+rx), or run code-sandbox as the agent's own user", folder).Because("folder_private")
}

// homes are the home directories of this machine's people.
func homes() []string {
	var all []string
	if h, err := os.UserHomeDir(); err == nil && h != "/" {
		all = append(all, filepath.Clean(h))
	}
	entries, _ := filepath.Glob("/home/*")
	all = append(all, entries...)
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return all
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 7 {
			continue
		}
		uid, err := strconv.Atoi(fields[2])
		if home := filepath.Clean(fields[5]); err == nil && (uid == 0 || uid >= 1000 && uid < 65000) && filepath.IsAbs(home) && home != "/" {
			all = append(all, home)
		}
	}
	return all
}
