package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is one line of /proc/PID/stat.
type process struct {
	pid, parent int
	own, reaped int64 // CPU in clock ticks: its own, and of children it has waited for
}

const ticksPerSecond = 100 // USER_HZ, the same on every Linux

func processes() map[int]process {
	all := map[int]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // ended meanwhile
		}
		pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		n := func(i int) int64 { v, _ := strconv.ParseInt(string(fields[i]), 10, 64); return v }
		all[pid] = process{pid: pid, parent: int(n(1)), own: n(11) + n(12), reaped: n(13) + n(14)}
	}
	return all
}

// tree is the service's processes by generation: the service itself, its
// zygotes, and what those have made.
func (s *Service) tree() [3][]process {
	all := processes()
	var t [3][]process
	for _, p := range all {
		switch {
		case p.pid == s.PID:
			t[0] = append(t[0], p)
		case p.parent == s.PID:
			t[1] = append(t[1], p)
		default:
			for q, ok := all[p.parent]; ok; q, ok = all[q.parent] {
				if q.parent == s.PID {
					t[2] = append(t[2], p)
					break
				}
			}
		}
	}
	return t
}

// cpu is the CPU time used so far by the service itself, and by its zygotes with
// all that they have reaped. Work of kernel threads on its behalf, the taking
// apart of namespaces mostly, is not in it.
func (s *Service) cpu() (service, below time.Duration) {
	t := s.tree()
	tick := time.Second / ticksPerSecond
	for _, p := range t[0] {
		service += time.Duration(p.own) * tick
		below += time.Duration(p.reaped) * tick // zygotes that were worn out
	}
	for _, p := range t[1] {
		below += time.Duration(p.own+p.reaped) * tick
	}
	return service, below
}

// pss is the proportional memory of a process in bytes: pages shared by n
// processes count as an n-th in each.
func pss(pid int) int64 { return procField(pid, "smaps_rollup", "Pss:") << 10 }

func rss(pid int) int64 { return procField(pid, "status", "VmRSS:") << 10 }

// peakRSS is the most since the process began or resetPeak was called.
func peakRSS(pid int) int64 { return procField(pid, "status", "VmHWM:") << 10 }

func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// procField reads the number after name; zero when the process has ended.
func procField(pid int, file, name string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			n, _ := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			return n
		}
	}
	return 0
}

// pssOf sums the proportional memory of the service's tree in bytes.
func (s *Service) pssOf() (service, below int64) {
	t := s.tree()
	service = pss(s.PID)
	for _, generation := range t[1:] {
		for _, p := range generation {
			below += pss(p.pid)
		}
	}
	return service, below
}

// descriptors counts the service's open ones.
func (s *Service) descriptors() int {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID))
	return len(entries)
}

// cgroups is the memory that the kernel has charged to each of the service's
// sandboxes, page tables and files included, in bytes. Cgroups without a
// process, which the service keeps for later, are not in it.
func (s *Service) cgroups() []int64 {
	mine := fmt.Sprintf("code-sandbox-%d-", s.PID)
	var use []int64
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || !strings.HasPrefix(filepath.Base(filepath.Dir(path)), mine) {
			return nil
		}
		if b, err := os.ReadFile(filepath.Join(path, "cgroup.procs")); err != nil || len(b) == 0 {
			return filepath.SkipDir
		}
		for _, name := range []string{"memory.usage_in_bytes", "memory.current"} {
			if b, err := os.ReadFile(filepath.Join(path, name)); err == nil {
				n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
				use = append(use, n)
			}
		}
		return filepath.SkipDir
	})
	return use
}
