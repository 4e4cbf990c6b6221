package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// layMounts makes the node's own view of the file system. Nothing of it is
// seen by the machine, and all of it ends with the mount namespace.
func layMounts(p Plan) error {
	// Private first, so that nothing passes to the machine; then shared, since
	// the kubelet wants to pass mounts on to containers.
	for _, how := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", how|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("cannot set how mounts spread: %w", err)
		}
	}
	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if err := foldersOf(p); err != nil {
		return err
	}
	if err := os.MkdirAll(Home+"/shown", 0o755); err != nil {
		return err
	}
	for name, value := range p.Shown {
		if err := show("/proc/sys/"+name, value); err != nil {
			return err
		}
	}
	for _, name := range p.Empty {
		if err := cover(name, nil); err != nil {
			return err
		}
	}
	// A user namespace may mount proc only where one is mounted that nothing
	// covers; the one at /proc has files of ours over it.
	return mount("proc", "/run/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// foldersOf replaces the machine's folders that daemons write to. The
// machine's folders to be shown are opened before, since they may lie below
// one that is replaced.
func foldersOf(p Plan) error {
	opened := map[string]int{}
	for inside, outside := range p.Folders {
		fd, err := unix.Open(outside, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("cannot open %q: %w", outside, err)
		}
		defer unix.Close(fd)
		opened[inside] = fd
	}
	for _, name := range []string{"/run", "/tmp", "/var/lib"} {
		mode := "mode=755"
		if name == "/tmp" {
			mode = "mode=1777"
		}
		if err := mount("bed", name, "tmpfs", 0, mode); err != nil {
			return err
		}
	}
	for inside, fd := range opened {
		if err := mount(fmt.Sprintf("/proc/self/fd/%d", fd), inside, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// mount mounts, and makes the folder to mount at where it is missing.
func mount(source, target, kind string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("cannot make a mount point: %w", err)
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("cannot mount %q: %w", target, err)
	}
	return nil
}

// show makes a setting of the whole machine read as value here, where daemons
// would else set it for everybody.
func show(file, value string) error {
	is, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read a setting: %w", err)
	}
	if string(bytes.TrimSpace(is)) == value {
		return nil
	}
	return cover(file, []byte(value+"\n"))
}

// cover puts a file with this content over another.
func cover(file string, content []byte) error {
	target, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot find %q: %w", file, err)
	}
	with := Home + "/shown/" + strings.ReplaceAll(strings.Trim(file, "/"), "/", ".")
	if err := os.WriteFile(with, content, 0o644); err != nil {
		return fmt.Errorf("cannot write what is to be shown: %w", err)
	}
	if err := unix.Mount(with, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot cover %q: %w", target, err)
	}
	return nil
}
