//go:build e2e

package runs

import (
	"os"
	"os/exec"
	"testing"
)

// The cases from the field, R1 to R25, through a sidecar, the pool and pods.
// Left out are those that start a service of their own, with other settings,
// or look at its processes.
func TestCases(t *testing.T) {
	p := use(t, nil)
	url := p.agent(t, "cases")
	suite(t, url, "../../cases", "-skip", "TestR10|TestNothingIsLeft")
}

// The hostile programs of the table are stopped in pods.
func TestEscape(t *testing.T) {
	p := use(t, nil)
	suite(t, p.agent(t, "hostile"), "../../escape", "-run", "^TestHostileProgramsElsewhere$")
}

// Where a pod has a user namespace of its own, its runner bounds what the kernel
// counts by user as well.
func TestEscapeInUserNamespaces(t *testing.T) {
	p := use(t, settings{"pool.replicas": 1, "sandbox.userNamespace": true})
	t.Setenv("CODE_SANDBOX_USER_NAMESPACE", "yes")
	suite(t, p.agent(t, "hostile-users"), "../../escape", "-run", "^TestHostileProgramsElsewhere$/^rows$/^(a_fork_bomb|300|queued|more_descriptors)")
}

// suite runs the tests of another package against a sidecar.
func suite(t *testing.T, url, folder string, flags ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-timeout", "8m", folder}, flags...)...)
	cmd.Env = append(os.Environ(), "CODE_SANDBOX_URL="+url)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
