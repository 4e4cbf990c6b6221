package local

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
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

	mu    sync.Mutex
	spare []*cgroup // empty ones, to be used again
}

const (
	maxSpare    = 32         // empty cgroups kept
	socketBytes = "67108864" // buffers of TCP and UDP sockets, in version 1
	// spareUse is what may still be charged to an empty cgroup that is used
	// again, in bytes: the kernel takes shared memory apart after its last
	// process has gone, and files read stay charged to their first reader.
	spareUse = 4 << 20
)

const cgroupPrefix = "code-sandbox-"

// newCgroups finds a place where memory cgroups can be made. An error says why
// there is none; memory is then watched instead.
func newCgroups(memory int64) (*cgroups, error) {
	var reasons []error
	for _, place := range cgroupPlaces() {
		removeStale(place.dir)
		c := &cgroups{
			dir:    filepath.Join(place.dir, fmt.Sprintf("%s%d-%d-%s", cgroupPrefix, os.Getpid(), startTime(os.Getpid()), rand.Text()[:6])),
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

// take gives an empty cgroup. Making and removing one costs the kernel as much
// as a fork, so one serves many sandboxes, one after the other.
func (c *cgroups) take() (*cgroup, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spare) == 0 {
		return c.make()
	}
	g := c.spare[0]
	c.spare = c.spare[1:]
	if g.used() <= spareUse {
		return g, nil
	}
	if err := g.remove(); err != nil {
		return nil, err
	}
	return c.make()
}

// giveBack takes a cgroup in which nothing lives any more. One whose limit was
// reached is not used again: the kernel's count of that never goes back.
func (c *cgroups) giveBack(g *cgroup) error {
	if g.oomKills() {
		return g.remove()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spare) == maxSpare {
		return g.remove()
	}
	c.spare = append(c.spare, g)
	return nil
}

// cgroup is the memory cgroup of one sandbox.
type cgroup struct {
	dir    string
	join   *os.File // writing "0" to it moves the writer in
	events *os.File // says whether the limit has ended anything
	usage  *os.File // bytes charged now
}

func (c *cgroups) make() (*cgroup, error) {
	g := &cgroup{dir: filepath.Join(c.dir, strconv.FormatUint(c.last.Add(1), 10))}
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
	if err == nil && !c.v2 {
		// Version 1 counts the buffers of network sockets apart, and the machine
		// has one sum for all. A kernel without this file counts none.
		if tcpErr := write(g.dir, "memory.kmem.tcp.limit_in_bytes", socketBytes); tcpErr != nil && !errors.Is(tcpErr, os.ErrNotExist) {
			err = tcpErr
		}
	}
	if err == nil {
		g.join, err = os.OpenFile(filepath.Join(g.dir, joinFile(c.v2)), os.O_WRONLY, 0)
	}
	if err == nil {
		g.events, err = os.Open(filepath.Join(g.dir, eventsFile(c.v2)))
	}
	if err == nil {
		g.usage, err = os.Open(filepath.Join(g.dir, usageFile(c.v2)))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot bound a cgroup's memory: %w", err), g.remove())
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

func eventsFile(v2 bool) string {
	if v2 {
		return "memory.events"
	}
	return "memory.oom_control"
}

func usageFile(v2 bool) string {
	if v2 {
		return "memory.current"
	}
	return "memory.usage_in_bytes"
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
	buf := make([]byte, 512)
	n, err := g.events.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	for line := range bytes.Lines(buf[:n]) {
		if n, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			return string(bytes.TrimSpace(n)) != "0"
		}
	}
	return false
}

// used is how many bytes are charged to the cgroup, as far as that can be read.
func (g *cgroup) used() int64 {
	buf := make([]byte, 32)
	n, err := g.usage.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return math.MaxInt64
	}
	bytes, err := strconv.ParseInt(string(bytes.TrimSpace(buf[:n])), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return bytes
}

// remove takes the cgroup away. Its processes have been killed; the kernel may
// take a moment more to let go of them.
func (g *cgroup) remove() error {
	g.join.Close() // nil is fine
	g.events.Close()
	g.usage.Close()
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
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.spare {
		_ = g.remove() // what it cannot, the next service does
	}
	c.spare = nil
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
	p, _ := parseStat(b)
	return p.started
}
