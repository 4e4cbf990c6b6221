package local

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// cgroupFolder is this service's own folder in one hierarchy of cgroups.
type cgroupFolder struct {
	dir  string   // named for us; see stale
	lock *os.File // held while we live
	v2   bool
}

const cgroupPrefix = "code-sandbox-"

// newCgroupFolder makes one, in which cgroups with this controller can be made.
func newCgroupFolder(p place, controller string) (*cgroupFolder, error) {
	name := fmt.Sprintf("%s%d-%d-%s", cgroupPrefix, os.Getpid(), startTime(os.Getpid()), rand.Text()[:6])
	f := &cgroupFolder{dir: filepath.Join(p.dir, name), v2: p.v2}
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make a cgroup: %w", err)
	}
	var err error
	if f.lock, err = lockFolder(f.dir); err == nil && f.v2 {
		err = f.enable(controller)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// enable has the cgroups that are made in the folder from now on have a
// controller. In version 1 all of a hierarchy have it.
func (f *cgroupFolder) enable(controller string) error {
	if err := write(f.dir, "cgroup.subtree_control", "+"+controller); err != nil {
		return fmt.Errorf("cannot have the controller %q in %s: %w", controller, f.dir, err)
	}
	return nil
}

// The kernel's own weights, those of a group or thread that nobody gave another.
const (
	usualShares, mostShares = 1024, 1 << 18 // in version 1
	usualWeight, mostWeight = 100, 10000    // in version 2
)

// weigh gives the folder, which is all sandboxes together, its weight beside the
// service: the usual one for each processor that we may use. Where sandboxes keep
// all of them busy, that is the weight of one thread of the service on each, so
// that the service has half of a processor that it needs. Less would make runs
// slower than before they were grouped, where others keep the machine busy.
func (f *cgroupFolder) weigh() error {
	processors := runtime.GOMAXPROCS(0)
	if f.v2 {
		return write(f.dir, "cpu.weight", strconv.Itoa(min(usualWeight*processors, mostWeight)))
	}
	return write(f.dir, "cpu.shares", strconv.Itoa(min(usualShares*processors, mostShares)))
}

// close takes the folder away, with all that is in it.
func (f *cgroupFolder) close() {
	_ = removeCgroups(f.dir)
	f.lock.Close() // nil is fine
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
