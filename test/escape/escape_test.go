package escape

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// serviceSecret stands in the service's environment, and in no program.
const serviceSecret = "5093418276"

func TestMain(m *testing.M) {
	if err := os.Setenv("ESCAPE_SECRET", serviceSecret); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// table is every hostile program.
func table() []row {
	return slices.Concat(kernelRows(), networkRows(), processRows(), resourceRows(), fileRows(), runnerRows())
}

// Every hostile program is stopped, and the sandbox after it works.
func TestHostilePrograms(t *testing.T) {
	t.Parallel() // with those below: most of the time is spent waiting
	tryAll(t, newMachine(t, false))
}

// Every row names its layer and has a run in which it must fail: without that
// layer, or outside of any sandbox.
func TestEveryRowCanFail(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, r := range table() {
		if names[r.name] || r.layer == "" {
			t.Errorf("row %q has no name of its own, or no layer", r.name)
		}
		if (len(r.without) > 0) == r.outside {
			t.Errorf("row %q must either leave layers out or run outside", r.name)
		}
		names[r.name] = true
	}
}

// The same holds where each sandbox boots its own interpreter.
func TestHostileProgramsInFreshInterpreters(t *testing.T) {
	t.Parallel()
	tryAll(t, newMachine(t, true))
}

func tryAll(t *testing.T, on target) {
	t.Helper()
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			if wrong := r.try(t, on); wrong != "" {
				t.Errorf("%s must stop it: %s", r.layer, wrong)
			}
			res, err := on.Run(t.Context(), &wire.Request{Code: "print('held')", TimeoutSeconds: 10})
			if err != nil || held(res) != "" {
				t.Errorf("the next run: %v, %v", res, err)
			}
		})
	}
}

// Without its layer each program gets through: so each row can fail.
func TestHostileProgramsWithoutTheirLayer(t *testing.T) {
	if unprivileged() {
		return // the same layers; that they are missed is shown by root
	}
	t.Parallel()
	machines := map[string]*machine{}
	for _, r := range table() {
		if len(r.without) == 0 {
			continue
		}
		key := strings.Join(r.without, " ")
		if machines[key] == nil {
			machines[key] = newMachine(t, false, r.without...)
		}
		t.Run(r.name, func(t *testing.T) {
			if wrong := r.try(t, machines[key]); wrong == "" {
				t.Errorf("it is stopped without %s as well: the row does not test that layer", key)
			} else {
				t.Logf("without %s: %.300s", key, wrong)
			}
		})
	}
}

// The whole table holds for a service without any right, too. It runs before the
// parallel ones: its sandboxes have no CPU cgroup, and would get little of the
// processors beside those that have one.
func TestHostileProgramsUnprivileged(t *testing.T) {
	if unprivileged() {
		return // every other test is this one
	}
	dir, err := os.MkdirTemp("", "escape")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "escape.test")
	copyProgram(t, program)
	cmd := exec.Command(program, "-test.run", "^TestHostilePrograms(Outside)?$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "\n--- PASS: TestHostilePrograms") != 2 {
		t.Errorf("as an unprivileged user: %v\n%s", err, out)
	}
}

// copyProgram copies this test's program. Another process writes it: a test beside
// this one may start something while it is open, and what is open for writing
// anywhere is not executed.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("install", "-m", "755", self, to).CombinedOutput(); err != nil {
		t.Fatalf("cannot copy the test's program: %v: %s", err, out)
	}
}
