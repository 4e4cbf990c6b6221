package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups makes one memory cgroup per sandbox, below one folder of this
// service. Both versions of the kernel's interface are served.
type cgroups struct {
	dir    string // ours; named for this process, so that a later one can tell it is stale
	v2     bool
	memory int64 // limit in bytes
	last   atomic.Uint64
}

const cgroupPrefix = "code-sandbox-"

// newCgroups finds a place where memory cgroups can be made. An error says why
// there is none; memory is then watched instead.
func newCgroups(memory int64) (*cgroups, error) {
	var reasons []error
	for _, place := range cgroupPlaces() {
		removeStale(place.dir)
		c := &cgroups{
			dir:    filepath.Join(place.dir, fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), startTime(os.Getpid()))),
			v2:     place.v2,
			memory: memory,
		}
		err := c.try()
		if err == nil {
			return c, nil
		}
		c.close()
		reasons = append(reasons, err)
	}
	if len(reasons) == 0 {
		return nil, errors.New("no memory cgroup is mounted")
	}
	return nil, errors.Join(reasons...)
}

// try makes our folder and one cgroup in it, and takes the latter away again.
func (c *cgroups) try() error {
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return fmt.Errorf("cannot make a cgroup: %w", err)
	}
	if c.v2 {
		if err := os.WriteFile(filepath.Join(c.dir, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			return fmt.Errorf("cannot have a memory limit in a cgroup: %w", err)
		}
	}
	g, err := c.make()
	if err != nil {
		return err
	}
	return g.remove()
}

// cgroup is the memory cgroup of one sandbox.
type cgroup struct {
	dir  string
	v2   bool
	join *os.File // writing "0" to it moves the writer in
}

func (c *cgroups) make() (*cgroup, error) {
	g := &cgroup{dir: filepath.Join(c.dir, strconv.FormatUint(c.last.Add(1), 10)), v2: c.v2}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make a cgroup: %w", err)
	}
	limit := strconv.FormatInt(c.memory, 10)
	files := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	if c.v2 {
		files = []string{"memory.max", "memory.swap.max"}
	}
	err := write(g.dir, files[0], limit)
	if err == nil {
		// Swap is bounded where the kernel accounts for it.
		if c.v2 {
			limit = "0"
		}
		if swapErr := write(g.dir, files[1], limit); swapErr != nil && !errors.Is(swapErr, os.ErrNotExist) {
			err = swapErr
		}
	}
	if err == nil {
		g.join, err = os.OpenFile(filepath.Join(g.dir, joinFile(c.v2)), os.O_WRONLY, 0)
	}
	if err != nil {
		os.Remove(g.dir)
		return nil, fmt.Errorf("cannot bound a cgroup's memory: %w", err)
	}
	return g, nil
}

// joinFile names the file through which a process with one thread moves in. In
// version 1 a thread that moves itself takes no lock; a process takes one that
// waits some 7 ms for all processors, and holds up every fork meanwhile.
func joinFile(v2 bool) string {
	if v2 {
		return "cgroup.procs"
	}
	return "tasks"
}

// write writes without creating: these files exist or are not supported.
func write(dir, name, value string) error {
	fd, err := unix.Open(filepath.Join(dir, name), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(value)); err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// oomKills says whether the limit has ended anything in the cgroup.
func (g *cgroup) oomKills() bool {
	name := "memory.oom_control"
	if g.v2 {
		name = "memory.events"
	}
	b, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(b) {
		if n, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			return string(bytes.TrimSpace(n)) != "0"
		}
	}
	return false
}

// remove takes the cgroup away. Its processes have been killed; the kernel may
// take a moment more to let go of them.
func (g *cgroup) remove() error {
	g.join.Close()
	for deadline := time.Now().Add(destroyBound); ; time.Sleep(time.Millisecond) {
		err := os.Remove(g.dir)
		switch {
		case err == nil || errors.Is(err, os.ErrNotExist):
			return nil
		case !errors.Is(err, unix.EBUSY) || time.Now().After(deadline):
			return fmt.Errorf("cannot remove a cgroup: %w", err)
		}
	}
}

func (c *cgroups) close() {
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		if e.IsDir() {
			os.Remove(filepath.Join(c.dir, e.Name()))
		}
	}
	os.Remove(c.dir)
}

// removeStale takes away what a service that was killed has left in dir.
func removeStale(dir string) {
	entries, _ := filepath.Glob(filepath.Join(dir, cgroupPrefix+"*"))
	for _, e := range entries {
		var pid int
		var started int64
		if _, err := fmt.Sscanf(filepath.Base(e), cgroupPrefix+"%d-%d", &pid, &started); err != nil || startTime(pid) == started {
			continue
		}
		(&cgroups{dir: e}).close()
	}
}

// startTime tells a process from a later one with the same pid; 0 if there is none.
func startTime(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[19]), 10, 64)
	return n
}
