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
)

// watchInterval is how often memory is looked at where no cgroup bounds it.
const watchInterval = 50 * time.Millisecond

// watchdog ends sandboxes that use too much memory on machines where this
// service can make no memory cgroup. It counts each process's proportional
// share, so that the zygote's pages are not counted in every sandbox. Between
// two looks a program can overshoot: RLIMIT_AS bounds by how much.
type watchdog struct {
	limit   int64
	mu      sync.Mutex
	watched map[string]*watched // by pid namespace, as /proc shows it
}

type watched struct {
	kill     func()
	overused bool
}

func newWatchdog(limit int64) *watchdog {
	return &watchdog{limit: limit, watched: map[string]*watched{}}
}

// add watches the pid namespace that process pid is in, until the returned
// function is called; that says whether the sandbox was ended for its memory.
func (w *watchdog) add(pid int, kill func()) (done func() bool, err error) {
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return nil, fmt.Errorf("cannot watch a sandbox's memory: %w", err)
	}
	entry := &watched{kill: kill}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched[ns] = entry
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.watched, ns)
		return entry.overused
	}, nil
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
	w.mu.Lock()
	idle := len(w.watched) == 0
	w.mu.Unlock()
	if idle {
		return
	}
	used := memoryByNamespace()
	w.mu.Lock()
	defer w.mu.Unlock()
	for ns, entry := range w.watched {
		if used[ns] > w.limit && !entry.overused {
			entry.overused = true
			entry.kill()
		}
	}
}

// memoryByNamespace sums the proportional memory of all processes we may look
// at, in bytes, by pid namespace.
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
