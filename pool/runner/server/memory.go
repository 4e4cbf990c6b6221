package server

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// unlimited is more than any limit that is one: the kernel's own word for none
// is the largest number of whole pages.
const unlimited = 1 << 60

// memoryEvents is the file of this container's cgroup that counts the processes
// which its memory limit has ended; empty when it is not to be seen.
func memoryEvents() string {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.ReadFile("/proc/self/cgroup")
	return findEvents(parseMounts(mounts), string(own))
}

// cgroupMount is where a hierarchy with memory is mounted, and of what.
type cgroupMount struct {
	root, dir string
	unified   bool
}

func parseMounts(mountinfo []byte) (found []cgroupMount) {
	for line := range bytes.Lines(mountinfo) {
		left, right, ok := strings.Cut(string(line), " - ")
		where, what := strings.Fields(left), strings.Fields(right)
		if !ok || len(where) < 5 || len(what) < 3 {
			continue
		}
		m := cgroupMount{root: where[3], dir: where[4], unified: what[0] == "cgroup2"}
		if m.unified || what[0] == "cgroup" && slices.Contains(strings.Split(what[2], ","), "memory") {
			found = append(found, m)
		}
	}
	return found
}

// findEvents looks in each mount for the cgroup that own names. One without a
// limit is not a container's own: its events are those of others.
func findEvents(mounts []cgroupMount, own string) string {
	for _, m := range mounts {
		limit, events := "memory.limit_in_bytes", "memory.oom_control"
		if m.unified {
			limit, events = "memory.max", "memory.events"
		}
		dir := m.dir
		if below, ok := strings.CutPrefix(ownPath(own, m.unified), strings.TrimSuffix(m.root, "/")); ok {
			dir = filepath.Join(m.dir, below)
		}
		b, err := os.ReadFile(filepath.Join(dir, limit))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil && n < unlimited {
			return filepath.Join(dir, events)
		}
	}
	return ""
}

// ownPath is this process's path in the hierarchy with memory.
func ownPath(own string, unified bool) string {
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if unified && parts[0] == "0" || !unified && slices.Contains(strings.Split(parts[1], ","), "memory") {
			return parts[2]
		}
	}
	return ""
}

// oomKills is the count in a file of events, 0 when there is none.
func oomKills(file string) int64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if word, count, _ := strings.Cut(lines.Text(), " "); word == "oom_kill" {
			n, _ := strconv.ParseInt(count, 10, 64)
			return n
		}
	}
	return 0
}
