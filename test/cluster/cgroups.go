package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hierarchy is one mounted tree of cgroups: one of several in version 1, the
// only one in version 2.
type hierarchy struct {
	root string
	v2   bool
}

// hierarchies reads them from the text of /proc/self/mountinfo.
func hierarchies(mountinfo string) []hierarchy {
	var found []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 1 || !strings.HasPrefix(kind[0], "cgroup") {
			continue
		}
		h := hierarchy{root: fields[4], v2: kind[0] == "cgroup2"}
		if !slices.Contains(found, h) {
			found = append(found, h)
		}
	}
	return found
}

func mountedHierarchies() ([]hierarchy, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot read the mounts: %w", err)
	}
	found := hierarchies(string(raw))
	if len(found) == 0 {
		return nil, errors.New("cannot find any cgroup hierarchy")
	}
	return found, nil
}

// makeCgroups makes a cgroup of the cluster's own in each hierarchy, for the
// kubelet, and one below it that the node's daemons are in.
func (b *Bed) makeCgroups() error {
	found, err := mountedHierarchies()
	if err != nil {
		return err
	}
	for _, h := range found {
		for _, name := range []string{b.name, filepath.Join(b.name, "daemons")} {
			if err := os.MkdirAll(filepath.Join(h.root, name), 0o755); err != nil {
				return fmt.Errorf("cannot make a cgroup: %w", err)
			}
			if err := inheritCpuset(h, name); err != nil {
				return err
			}
		}
		// In version 2 only a cgroup without processes passes controllers on,
		// which is why the daemons are in one below it.
		if err := passControllers(filepath.Join(h.root, b.name)); err != nil {
			return err
		}
	}
	return nil
}

// inheritCpuset copies what a cpuset of version 1 must have before a process
// may enter it.
func inheritCpuset(h hierarchy, name string) error {
	if h.v2 {
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		from, err := os.ReadFile(filepath.Join(h.root, file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(h.root, name, file), bytes.TrimSpace(from), 0)
		}
		if err != nil {
			return fmt.Errorf("cannot set up a cpuset: %w", err)
		}
	}
	return nil
}

// passControllers gives every controller that the cgroup has to those below.
func passControllers(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the controllers: %w", err)
	}
	for _, c := range strings.Fields(string(raw)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("cannot pass on the controller %q: %w", c, err)
		}
	}
	return nil
}

func (b *Bed) joinCgroups(pid int) error {
	found, err := mountedHierarchies()
	if err != nil {
		return err
	}
	for _, h := range found {
		file := filepath.Join(h.root, b.name, "daemons", "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("cannot put the node into its cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroups ends what is left in the cluster's cgroups and removes them.
func (b *Bed) removeCgroups(ctx context.Context) error {
	found, err := mountedHierarchies()
	if err != nil {
		return err
	}
	for {
		left := b.cgroups(found)
		for _, dir := range slices.Backward(left) { // children come after their parents
			killAll(dir)
			_ = os.Remove(dir)
		}
		if left = b.cgroups(found); len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot remove the cgroups %q: %w", left, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// cgroups are the folders of the cluster's cgroups, parents first.
func (b *Bed) cgroups(in []hierarchy) []string {
	var dirs []string
	for _, h := range in {
		_ = filepath.WalkDir(filepath.Join(h.root, b.name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	return dirs
}

func killAll(dir string) {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for field := range strings.FieldsSeq(string(raw)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
