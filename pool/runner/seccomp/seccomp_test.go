package seccomp

import (
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// status is a line of a process's own status.
func status(t *testing.T, text []byte, name string) string {
	t.Helper()
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+":\t"); found {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("there is no %s in %s", name, text)
	return ""
}

// A process that is started under the filter is under it; this one is not.
func TestDo(t *testing.T) {
	// Read by a child: the first thread, which /proc/self is about, is left under
	// the filter when it was the one that Do took.
	read := func() (text []byte, err error) { return exec.Command("cat", "/proc/self/status").Output() }
	before, err := read()
	if err != nil {
		t.Fatal(err)
	}
	var inside []byte
	if err := Do(func() (err error) { inside, err = read(); return err }); err != nil {
		t.Fatal(err)
	}
	if status(t, inside, "Seccomp") != "2" || status(t, inside, "NoNewPrivs") != "1" {
		t.Errorf("what was started has no filter: %s", inside)
	}
	outside, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if status(t, outside, "Seccomp_filters") != status(t, before, "Seccomp_filters") {
		t.Errorf("this process has the filter as well: %s", outside)
	}
	// The same for a thread that Go makes afterwards.
	for range 2 * runtime.GOMAXPROCS(0) {
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			done <- probe()
		}()
		if err := <-done; err == nil {
			t.Error("a later thread has the filter")
		}
	}
	// An error of what was called comes back.
	mine := errors.New("mine")
	if err := Do(func() error { return mine }); !errors.Is(err, mine) {
		t.Errorf("the error is %v", err)
	}
}

// everything is a filter that lets through every call: return SECCOMP_RET_ALLOW.
var everything = []byte{0x06, 0, 0, 0, 0, 0, 0xff, 0x7f}

// A thread without the filter, and one whose filter does nothing, fail each
// attempt: so each can fail.
func TestProbe(t *testing.T) {
	f := func(prepare func() error) {
		t.Helper()
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			if err := prepare(); err != nil {
				t.Error(err)
			}
			done <- probe()
		}()
		err := <-done
		if err == nil {
			t.Fatal("nothing was found")
		}
		for _, a := range attempts {
			if !strings.Contains(err.Error(), a.name+" was let through") && !strings.Contains(err.Error(), a.name+" reached the kernel") {
				t.Errorf("%s is not told: %v", a.name, err)
			}
		}
	}
	f(func() error { return nil })
	f(func() error { return install(everything) })
}

// Nothing is started where the kernel does not take the filter, or takes it and
// lets through what it must not.
func TestNothingIsStarted(t *testing.T) {
	f := func(filter []byte, want string) {
		t.Helper()
		err := under(filter, func() error { t.Error("it was called"); return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v", err)
		}
	}
	// One without a verdict.
	f(make([]byte, instruction), "cannot install the filter")
	f(everything, "does not hold here")
}
