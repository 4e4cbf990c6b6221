package cases

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// traces is all that a service may leave on a machine.
type traces struct {
	cgroups, mounts, files []string
}

// look finds what is there now; of cgroups only those named for one of pids,
// since other services may come and go on this machine.
func look(t *testing.T, pids ...int) traces {
	t.Helper()
	var found traces
	for _, pid := range pids {
		found.cgroups = append(found.cgroups, cgroupsOf(t, pid)...)
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		found.mounts = append(found.mounts, strings.Fields(line)[4])
	}
	for _, dir := range []string{os.TempDir(), "/var/tmp", "/dev/shm", "/run"} {
		matches, err := filepath.Glob(filepath.Join(dir, "*code-sandbox*"))
		if err != nil {
			t.Fatal(err)
		}
		found.files = append(found.files, matches...)
	}
	return found
}

// cgroupsOf finds the cgroups of the service that had this process id.
func cgroupsOf(t *testing.T, pid int) (found []string) {
	t.Helper()
	for _, depth := range []string{"/", "/*/", "/*/*/", "/*/*/*/", "/*/*/*/*/"} {
		matches, err := filepath.Glob("/sys/fs/cgroup" + depth + "code-sandbox-" + itoa(pid) + "-*")
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, matches...)
	}
	return found
}

// more lists what is in b and not in a.
func more(a, b traces) []string {
	var added []string
	for _, pair := range [][2][]string{{a.cgroups, b.cgroups}, {a.mounts, b.mounts}, {a.files, b.files}} {
		for _, x := range pair[1] {
			if !slices.Contains(pair[0], x) {
				added = append(added, x)
			}
		}
	}
	return added
}

// busy has runs in flight of each kind: sleeping, with children, with a full disk.
func (s *service) busy(t *testing.T) (callers []net.Conn) {
	t.Helper()
	for _, code := range []string{
		"import time; time.sleep(60)",
		"import subprocess, time; subprocess.Popen(['sleep', '60'], start_new_session=True); time.sleep(60)",
		"import time; open('/tmp/x', 'wb').write(b'x' * (10 << 20)); time.sleep(60)",
	} {
		conn := send(t, s, request{Code: code, Timeout: 100}, "application/json")
		t.Cleanup(func() { conn.Close() })
		callers = append(callers, conn)
	}
	for deadline := time.Now().Add(20 * time.Second); metric(t, get(t, s.admin+"/metrics"), `state="leased"`) != "3"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("three runs are not in flight")
		}
	}
	return callers
}

// holdsCgroups checks that there is something to be left, of each kind of
// cgroups that the service says it has.
func holdsCgroups(t *testing.T, s *service) {
	t.Helper()
	f := func(said, settings string) {
		t.Helper()
		if !strings.Contains(s.output.String(), said) {
			return
		}
		for _, dir := range cgroupsOf(t, s.here()) {
			if found, err := filepath.Glob(filepath.Join(dir, "*", settings)); err == nil && len(found) > 0 {
				return
			}
		}
		t.Fatalf("%s, and such cgroups of the service's are not found: none would be seen to be left", said)
	}
	f("memory held by cgroup", "memory.[lm][ia][mx]*") // memory.limit_in_bytes or memory.max
	f("processors shared by cgroup", "cpu.[sw][he]*")  // cpu.shares or cpu.weight
}

// The processes of a service that was killed end with it.
func wantDead(t *testing.T, pids []int) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool {
			b, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
			return err != nil || strings.Contains(string(b), ") Z ") // the test reaps its child itself
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes %v of %d are left", left, len(pids))
		}
	}
}

// After SIGTERM with runs in flight nothing of the service is left.
func TestNothingIsLeftAfterSIGTERM(t *testing.T) {
	before := look(t)
	s := newService(t, "--drain", "1s")
	s.works(t)
	s.busy(t)
	pids := family(s.here())
	if len(pids) < 6 {
		t.Fatalf("the service has only %d processes: nothing would be seen", len(pids))
	}
	holdsCgroups(t, s)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	wantDead(t, pids)
	if left := more(before, look(t, pids[0])); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Nor after two, which end the runs at once: their callers are told so.
func TestNothingIsLeftAfterTwoSIGTERMs(t *testing.T) {
	before := look(t)
	s := newService(t)
	s.works(t)
	callers := s.busy(t)
	pids := family(s.here())
	holdsCgroups(t, s)
	for range 2 {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		s.drains(t)
	}
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}
	for _, conn := range callers {
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("a caller got no answer: %v", err)
			continue
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), `"code":"no_capacity"`) || !strings.Contains(string(body), `"executed":"maybe"`) {
			t.Errorf("a caller got %d %s, %v", res.StatusCode, body, err)
		}
	}
	wantDead(t, pids)
	if left := more(before, look(t, pids[0])); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// drains waits until the service has taken the signal to stop: two at once are
// one to the kernel.
func (s *service) drains(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		res, err := http.Get(s.admin + "/readyz")
		if err != nil {
			return // it has ended
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the service does not drain")
		}
	}
}

// After kill -9 with runs in flight no process is left at once, and nothing
// else once the service has been started again.
func TestNothingIsLeftAfterKillAndRestart(t *testing.T) {
	before := look(t)
	s, err := start("--python", python)
	if err != nil {
		t.Fatal(err)
	}
	s.works(t)
	s.busy(t)
	pids := family(s.here())
	if len(pids) < 6 {
		t.Fatalf("the service has only %d processes: nothing would be seen", len(pids))
	}
	holdsCgroups(t, s)
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.wait(); err == nil {
		t.Fatal("a killed service ended well")
	}
	wantDead(t, pids)
	again := newService(t)
	again.works(t)
	pids = append(pids[:1], again.here())
	if err := again.stop(); err != nil {
		t.Fatal(err)
	}
	if left := more(before, look(t, pids...)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
