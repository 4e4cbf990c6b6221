package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func TestSelfTest(t *testing.T) {
	f := func(layers, want string) {
		t.Helper()
		d := newDriver(t, func(o *Options) { o.Without = strings.Fields(layers) })
		err := d.SelfTest(t.Context(), template())
		switch {
		case want == "" && err != nil:
			t.Errorf("with everything on: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("without %s: got %v, want %q", layers, err, want)
		}
	}
	// Everything is on.
	f("", "")
	// Each layer is missed when it is left out.
	f("seccomp", "no filter of system calls")
	f("seccomp", "the system call unshare was let through")
	f("network", "there may be a network")
	f("pids", "processes of others are visible")
	f("user", "no user namespace")
	f("capabilities", "capabilities are left")
	f("rlimits", "RLIMIT_CORE is not set")
	// The kernel takes no filter from a process that could gain privileges.
	f("no_new_privs seccomp", "new privileges can be gained")
	f("hostname", "the host's name is visible")
	f("disk", "bytes on its disk are not bounded")
}

// The same driver works for a user without any right, and for the same suite.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("this process is unprivileged already: every other test is this one")
		return
	}
	dir, err := os.MkdirTemp("", "code-sandbox-test")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// As the repository has them: tests find the hook from their own folder.
	if err := os.CopyFS(filepath.Join(dir, "toolproxy/hook/py"), os.DirFS(hookFolder(t))); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "pool/local")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(home, "local.test")
	copyProgram(t, program)
	tmp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o755), os.Chown(tmp, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run", "^(TestConformance|TestSelfTest|TestMemory|TestCopyHides|TestCopySees)", "-test.v")
	cmd.Dir = home
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + tmp}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestConformance") || !strings.Contains(string(out), "--- PASS: TestCopyHides") {
		t.Errorf("as an unprivileged user: %v\n%s", err, out)
	}
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := io.Copy(w, from); err != nil {
		t.Fatal(err)
	}
}

// Memory is bounded over all processes of a sandbox, whoever holds the limit.
func TestMemory(t *testing.T) {
	const limit = 128 << 20
	d := newDriver(t, func(o *Options) { o.MemoryBytes = limit })
	bounded := template()
	bounded.Limits.MemoryBytes = limit
	f := func(code string) {
		t.Helper()
		res := runFrom(t, d, bounded, "print('before', flush=True)\n"+code)
		if res.Outcome != wire.OutOfMemory || res.Stdout != "before\n" || !strings.Contains(res.Reason, "128 MiB") {
			t.Errorf("held by %s: %+v", d.MemoryBy(), res)
		}
	}
	// At once.
	f("x = bytearray(10**10)")
	// Slowly, in a child.
	f(`import os, time
if os.fork() == 0:
    hold = []
    while True:
        hold.append(bytearray(2 << 20))
        time.sleep(0.01)
os.wait()
time.sleep(1)`)
	// In many processes, each under the limit.
	f(`import os, time
for i in range(8):
    if os.fork() == 0:
        hold = bytearray(os.urandom(1 << 20)) * 25
        time.sleep(20)
time.sleep(20)`)
}

// A run whose zygote dies is lost, and says so; the next one works.
func TestZygoteKilled(t *testing.T) {
	d := newDriver(t, nil)
	ctx := context.Background()
	s, err := d.Start(ctx, template())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Destroy(ctx, s.ID())
	failed := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, &wire.Request{Code: "import time; time.sleep(20)", TimeoutSeconds: 20}, nil)
		failed <- err
	}()
	d.zygotesMu.Lock()
	brood := d.zygotes[template().Key()]
	d.zygotesMu.Unlock()
	for i := range brood.slots {
		if z := brood.slots[i].zygote; z != nil {
			if err := z.kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "went away during the run") {
		t.Errorf("the run ended with %v", err)
	}
	if res := run(t, d, "print(1)"); res.Stdout != "1\n" {
		t.Errorf("the next run: %+v", res)
	}
}

// Process 1 of a sandbox holds nothing but the pipe that it waits on.
func TestInitHoldsNothing(t *testing.T) {
	d := newDriver(t, nil)
	s, err := d.Start(t.Context(), template())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Destroy(t.Context(), s.ID())
	pid, err := hostPID(s.(*sandbox).initFD)
	if err != nil {
		t.Fatal(err)
	}
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(open) != 1 {
		t.Errorf("process 1 has the descriptors %v, %v", open, err)
	}
}
