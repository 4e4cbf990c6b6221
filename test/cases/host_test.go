package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tellNamespace is Python that prints the program's pid namespace: by it, every
// process of the run can be found from outside.
const tellNamespace = `import os; print(os.readlink("/proc/self/ns/pid"), flush=True)
`

// inNamespace lists the processes of a pid namespace, as this machine sees them.
func inNamespace(link string) []string {
	var pids []string
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == link {
			pids = append(pids, strings.Split(l, "/")[2])
		}
	}
	return pids
}

// gone waits until nothing of a run is left; only where it can be looked at.
func (s *service) gone(t *testing.T, namespace string, bound time.Duration) {
	t.Helper()
	namespace = strings.TrimSpace(namespace)
	if !strings.HasPrefix(namespace, "pid:[") {
		t.Fatalf("%q is not a pid namespace", namespace)
	}
	if s.here() == 0 {
		return
	}
	for deadline := time.Now().Add(bound); ; time.Sleep(5 * time.Millisecond) {
		left := inNamespace(namespace)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes %v of the run are left after %s", left, bound)
		}
	}
}

// family lists a process and all that descends from it.
func family(root int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// residentBytes is a process's memory.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(b), "VmRSS:")
	fields := strings.Fields(after)
	if !ok || len(fields) == 0 {
		t.Fatal("the process has no memory")
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}
