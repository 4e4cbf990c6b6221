package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watchInterval is how often running sandboxes are looked at.
const watchInterval = 50 * time.Millisecond

// watchdog ends running sandboxes that are over their memory limit.
//
// With a memory cgroup the kernel holds the limit, but may end one process and
// leave a crippled program to its timeout: the rest is ended here. Where no
// cgroup can be made, the processes' proportional shares are added up, so that
// the zygote's pages do not count in every sandbox. A program can then
// overshoot between two looks; RLIMIT_AS bounds by how much.
type watchdog struct {
	limit   int64 // bytes
	mu      sync.Mutex
	running map[*watched]struct{}
}

// watched is one running sandbox.
type watched struct {
	cgroup    *cgroup  // nil when its memory is to be added up
	namespace string   // of its processes, as /proc shows it; without a cgroup
	files     *os.File // its working directory, whose disk is memory; without a cgroup
	kill      func()
	over      bool
}

func newWatchdog(limit int64) *watchdog {
	return &watchdog{limit: limit, running: map[*watched]struct{}{}}
}

// add watches until the returned function is called, which says whether the
// sandbox went over its limit.
func (w *watchdog) add(entry *watched) (done func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[entry] = struct{}{}
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.running, entry)
		return entry.over || entry.cgroup != nil && entry.cgroup.oomKills()
	}
}

func (w *watchdog) run(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look()
		}
	}
}

func (w *watchdog) look() {
	// A program can make its memory slow to add up: no run may wait for that.
	var used map[string]int64
	if w.adds() {
		used = memoryByNamespace()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for entry := range w.running {
		if entry.over {
			continue
		}
		if entry.cgroup != nil {
			entry.over = entry.cgroup.oomKills()
		} else {
			entry.over = used[entry.namespace]+diskUse(entry.files) > w.limit
		}
		if entry.over {
			entry.kill()
		}
	}
}

// adds says whether any running sandbox has no cgroup that adds up for it.
func (w *watchdog) adds() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for entry := range w.running {
		if entry.cgroup == nil {
			return true
		}
	}
	return false
}

// diskUse is what the files on a directory's disk hold, in bytes.
func diskUse(dir *os.File) int64 {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &s); err != nil {
		return 0
	}
	return int64(s.Blocks-s.Bfree) * s.Bsize
}

// pidNamespace is the pid namespace of a process, as memoryByNamespace names it.
func pidNamespace(pid int) (string, error) {
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return "", fmt.Errorf("cannot watch a sandbox's memory: %w", err)
	}
	return ns, nil
}

// memoryByNamespace adds up the proportional memory of all processes we may
// look at, in bytes, by pid namespace.
func memoryByNamespace() map[string]int64 {
	used := map[string]int64{}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		ns, err := os.Readlink(p + "/ns/pid")
		if err != nil {
			continue
		}
		b, err := os.ReadFile(p + "/smaps_rollup")
		if err != nil {
			continue
		}
		used[ns] += field(b, "Pss:") << 10
	}
	return used
}

// field finds "name  123 kB" in a file of /proc.
func field(b []byte, name string) int64 {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				n, _ := strconv.ParseInt(string(f[0]), 10, 64)
				return n
			}
		}
	}
	return 0
}
