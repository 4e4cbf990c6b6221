package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// sweep ends and removes what services of this user that were killed have left
// on this machine: of either driver, wherever their cgroups were. What a living
// service has is not touched. Both drivers sweep when they are made.
func sweep(log hclog.Logger) {
	sweepBare(os.TempDir(), log)
	for _, mount := range cgroupMounts("memory", "cpu") {
		sweepCgroups(mount.point, log)
	}
}

// sweepCgroups looks through a whole hierarchy: the one that was killed may have
// been started from another session, container or unit than this one.
func sweepCgroups(top string, log hclog.Logger) {
	_ = filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir // gone, or not ours to look at
		case err != nil || !d.IsDir():
			return nil
		case !strings.HasPrefix(d.Name(), cgroupPrefix):
			return nil
		}
		if lock := stale(dir); lock != nil {
			defer lock.Close()
			if err := endCgroups(dir); err != nil {
				log.Warn("something is left of a service that was killed", "error", err)
			}
		}
		return fs.SkipDir
	})
}

// stale says whether the service that made a folder of cgroups is dead, by the
// folder's lock, which is then held. The process that the folder is named for is
// looked for as well: between making the folder and locking it, a service is
// known by that. (One in another pid namespace is known by the lock alone.)
func stale(dir string) (lock *os.File) {
	var pid int
	var started int64
	if _, err := fmt.Sscanf(filepath.Base(dir), cgroupPrefix+"%d-%d-", &pid, &started); err != nil || startTime(pid) == started {
		return nil
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return nil
	}
	if lock, err = lockFolder(dir); err != nil {
		return nil
	}
	return lock
}

// endCgroups kills what is left in a dead service's cgroups, and removes them.
func endCgroups(dir string) error {
	entries, err := os.ReadDir(dir)
	for deadline := time.Now().Add(deathBound); killMembers(dir, entries) && time.Now().Before(deadline); {
		time.Sleep(2 * time.Millisecond)
	}
	return errors.Join(err, removeCgroups(dir))
}

// killMembers says whether anything was there to kill.
func killMembers(dir string, entries []fs.DirEntry) (some bool) {
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		t := &tree{cgroup: &cgroup{dir: filepath.Join(dir, e.Name())}}
		for pid := range t.cgroupMembers() {
			if pid <= 1 || pid == os.Getpid() { // 0 is one that we cannot see
				continue
			}
			some = true
			process{pid: pid, started: startTime(pid)}.kill()
		}
	}
	return some
}

// removeCgroups removes a service's folder and the cgroups in it. The kernel may
// take a moment to let go of processes that have been killed.
func removeCgroups(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeCgroup(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(err, removeCgroup(dir))
}

// emptyBound is for the kernel to let go of processes that have ended.
const emptyBound = 5 * time.Second

func removeCgroup(dir string) error {
	for deadline := time.Now().Add(emptyBound); ; time.Sleep(time.Millisecond) {
		err := os.Remove(dir)
		switch {
		case err == nil || errors.Is(err, os.ErrNotExist):
			return nil
		case !errors.Is(err, unix.EBUSY) || time.Now().After(deadline):
			return fmt.Errorf("cannot remove a cgroup: %w", err)
		}
	}
}
