package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// elsewhere is a cgroup that no service of this process would be made in: that
// of another session, unit or container.
func elsewhere(t *testing.T, controller string) (dir string, v2 bool) {
	t.Helper()
	for _, m := range cgroupMounts(controller) {
		dir, err := os.MkdirTemp(m.point, "session-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("something is left in it: %v", err)
			}
		})
		return dir, m.v2
	}
	return "", false
}

// serviceOf makes the folder of a service in dir, with a cgroup in it. Its lock
// is held: other tests' services sweep this machine as well.
func serviceOf(t *testing.T, dir string, pid int, started int64) (service, cgroup string, lock *os.File) {
	t.Helper()
	service = filepath.Join(dir, cgroupPrefix+strconv.Itoa(pid)+"-"+strconv.FormatInt(started, 10)+"-TEST42")
	cgroup = filepath.Join(service, "1")
	err := os.Mkdir(service, 0o755)
	if err == nil {
		lock, err = lockFolder(service)
	}
	if err == nil {
		err = os.Mkdir(cgroup, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = removeCgroups(service) })
	return service, cgroup, lock
}

const deadPID = 999999999

// What a killed service left is taken away by the next one, of either kind,
// wherever it was; what still runs there is ended.
func TestStaleCgroups(t *testing.T) {
	for _, controller := range []string{"memory", "cpu"} {
		dir, v2 := elsewhere(t, controller)
		if dir == "" {
			t.Logf("no %s cgroup can be made here: there is nothing to be left", controller)
			continue
		}
		testStaleCgroups(t, dir, v2)
	}
}

func testStaleCgroups(t *testing.T, dir string, v2 bool) {
	t.Helper()
	f := func(next func()) {
		t.Helper()
		service, cgroup, lock := serviceOf(t, dir, deadPID, 1)
		left := exec.Command("sleep", "60")
		if err := left.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(20*time.Second, func() { _ = left.Process.Kill() })
		if err := write(cgroup, joinFile(v2), strconv.Itoa(left.Process.Pid)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			_ = left.Wait() // how it ended is told by its state
			close(ended)
		}()
		lock.Close()
		next()
		if _, err := os.Stat(service); !os.IsNotExist(err) {
			t.Errorf("the stale cgroup is still there: %v", err)
		}
		<-ended
		if status, ok := left.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Errorf("the process that was left ended with %v", left.ProcessState)
		}
	}
	f(func() { newDriver(t, nil) })
	f(func() { newBare(t) })
}

// A living service's cgroups are left alone, also those that are empty.
func TestLivingCgroups(t *testing.T) {
	for _, controller := range []string{"memory", "cpu"} {
		dir, _ := elsewhere(t, controller)
		if dir == "" {
			t.Logf("no %s cgroup can be made here: there is nothing to be taken away", controller)
			continue
		}
		testLivingCgroups(t, dir)
	}
}

func testLivingCgroups(t *testing.T, dir string) {
	t.Helper()
	stays := func(what string, paths ...string) {
		t.Helper()
		newDriver(t, nil)
		newBare(t)
		for _, path := range paths {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	// Its process is there, and it has not locked its folder yet.
	service, cgroup, lock := serviceOf(t, dir, os.Getpid(), startTime(os.Getpid()))
	lock.Close()
	stays("of a process that lives", service, cgroup)
	// In another pid namespace: its process cannot be seen here, its lock can.
	service, cgroup, lock = serviceOf(t, dir, deadPID, 1)
	stays("of one that cannot be seen", service, cgroup)
	// A driver holds such a lock.
	d := newDriver(t, nil)
	if again, err := lockFolder(d.cgroups.dir); err == nil {
		again.Close()
		t.Error("a driver's folder of cgroups is not locked")
	}
	stays("of a driver", d.cgroups.dir)
	if d.CPUBy() == "cgroup" {
		if again, err := lockFolder(d.cgroups.cpu.dir); err == nil {
			again.Close()
			t.Error("a driver's folder of CPU cgroups is not locked")
		}
		stays("of a driver", d.cgroups.cpu.dir)
	}
	// Dead at last.
	lock.Close()
	newDriver(t, nil)
	if _, err := os.Stat(service); !os.IsNotExist(err) {
		t.Errorf("the stale cgroup is still there: %v", err)
	}
}
