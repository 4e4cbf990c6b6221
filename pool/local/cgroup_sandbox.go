package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// cgroup is the cgroups of one sandbox: that of its memory and, where the
// processors are divided in another hierarchy, that of its share of them.
type cgroup struct {
	dir, cpuDir string   // the second is empty where there is none of its own
	join        *os.File // writing "0" to it moves the writer in
	joinCPU     *os.File // the same of cpuDir; nil where there is none
	events      *os.File // says whether the limit has ended anything
	usage       *os.File // bytes charged now
}

func (c *cgroups) make() (*cgroup, error) {
	name := strconv.FormatUint(c.last.Add(1), 10)
	g := &cgroup{dir: filepath.Join(c.dir, name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make a cgroup: %w", err)
	}
	if err := errors.Join(boundMemory(g.dir, c.v2, c.memory), g.open(c.v2)); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot bound a cgroup's memory: %w", err), g.remove())
	}
	if c.cpuApart() {
		if err := g.divideCPU(filepath.Join(c.cpu.dir, name), c.cpu.v2); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot make a CPU cgroup: %w", err), g.remove())
		}
	}
	return g, nil
}

// boundMemory sets the limits of a memory cgroup.
func boundMemory(dir string, v2 bool, bytes int64) error {
	limit := strconv.FormatInt(bytes, 10)
	if v2 {
		return errors.Join(write(dir, "memory.max", limit), writeIfThere(dir, "memory.swap.max", "0"))
	}
	err := write(dir, "memory.limit_in_bytes", limit)
	if err != nil {
		return err // the next must not be below it
	}
	// Version 1 counts the buffers of network sockets apart, and the machine has
	// one sum for all.
	return errors.Join(writeIfThere(dir, "memory.memsw.limit_in_bytes", limit), writeIfThere(dir, "memory.kmem.tcp.limit_in_bytes", socketBytes))
}

// open opens what is needed of the memory cgroup at each use.
func (g *cgroup) open(v2 bool) error {
	var errs [3]error
	g.join, errs[0] = os.OpenFile(filepath.Join(g.dir, joinFile(v2)), os.O_WRONLY, 0)
	g.events, errs[1] = os.Open(filepath.Join(g.dir, eventsFile(v2)))
	g.usage, errs[2] = os.Open(filepath.Join(g.dir, usageFile(v2)))
	return errors.Join(errs[:]...)
}

// divideCPU makes the cgroup of the share of the processors. Its weight is the
// kernel's default, that of every other sandbox's.
func (g *cgroup) divideCPU(dir string, v2 bool) error {
	err := os.Mkdir(dir, 0o755)
	if err != nil {
		return err
	}
	g.cpuDir = dir
	g.joinCPU, err = os.OpenFile(filepath.Join(dir, joinFile(v2)), os.O_WRONLY, 0)
	return err
}

func (g *cgroup) dirs() []string {
	if g.cpuDir == "" {
		return []string{g.dir}
	}
	return []string{g.dir, g.cpuDir}
}

// joins are the files through which a process moves in: first that of memory.
func (g *cgroup) joins() []*os.File {
	if g.joinCPU == nil {
		return []*os.File{g.join}
	}
	return []*os.File{g.join, g.joinCPU}
}

// admits says why a process cannot join, if so: the processors of a cgroup may be
// none yet, for one.
func (g *cgroup) admits() error {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		return fmt.Errorf("cannot start a process for a cgroup: %w", err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	for _, join := range g.joins() {
		if _, err := join.WriteString(strconv.Itoa(child.Process.Pid)); err != nil {
			return fmt.Errorf("no process can join a cgroup: %w", err)
		}
	}
	return nil
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

// writeIfThere is for what a kernel without the file does not account for.
func writeIfThere(dir, name, value string) error {
	if err := write(dir, name, value); !errors.Is(err, os.ErrNotExist) {
		return err
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

// remove takes the cgroups away. Their processes have been killed; the kernel may
// take a moment more to let go of them.
func (g *cgroup) remove() error {
	g.join.Close() // nil is fine
	g.joinCPU.Close()
	g.events.Close()
	g.usage.Close()
	var err error
	for _, dir := range g.dirs() {
		err = errors.Join(err, removeCgroup(dir))
	}
	return err
}
