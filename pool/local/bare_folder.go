package local

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

const barePrefix = "code-sandbox-none-"

// bareFolder holds the folders of one service's sandboxes. Its lock is held
// while the service lives, so that a later one can tell that it is stale.
type bareFolder struct {
	path string
	lock *os.File
}

func newBareFolder(temp string) (*bareFolder, error) {
	path, err := os.MkdirTemp(temp, barePrefix)
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for sandboxes: %w", err)
	}
	f := &bareFolder{path: path}
	if f.lock, err = lockFolder(path); err != nil {
		os.Remove(path)
		return nil, err
	}
	return f, nil
}

// lockFolder locks the folder itself: there is no moment at which it exists
// with a lock file that is not there yet.
func lockFolder(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the folder for sandboxes: %w", err)
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		dir.Close()
		return nil, fmt.Errorf("cannot lock the folder for sandboxes %q: %w", path, err)
	}
	return dir, nil
}

func (f *bareFolder) remove() error {
	defer f.lock.Close()
	return removeFolder(f.path)
}

// removeFolder removes a folder whose owner may have taken rights from himself.
// Nothing that could change it is alive any more.
func removeFolder(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700) // if it fails, so does the removal below
		}
		return nil
	})
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("cannot remove a sandbox's folder: %w", err)
	}
	return nil
}

// sweepBare ends the processes and removes the folders that a killed service of
// this user has left.
func sweepBare(temp string, log hclog.Logger) {
	folders, _ := filepath.Glob(filepath.Join(temp, barePrefix+"*"))
	for _, path := range folders {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() {
			continue
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(owner.Uid) != os.Geteuid() {
			continue
		}
		lock, err := lockFolder(path)
		if err != nil {
			continue // a living service's
		}
		t := &tree{mark: path + "/", leader: func() int { return 0 }}
		t.end(deathBound)
		if err := removeFolder(path); err != nil {
			log.Warn("something is left of a service that was killed", "error", err)
		}
		lock.Close()
	}
}
