//go:build e2e

// Package runs tests run_python on a real cluster: agents in pods, their
// sidecars, replicas of the pool, and one pod for each run.
package runs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// settings are values of the chart.
type settings map[string]string

// platform is an installation of the chart, with namespaces of its own: one for
// the pool, one for its sandboxes and one for agents.
type platform struct {
	release                string
	system, runs, tenants *e2e.Space
	given                  settings
}

// install installs the chart for the test, which removes it again.
func install(t *testing.T, given settings) *platform {
	t.Helper()
	restricted := e2e.Labels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	p := &platform{
		system: e2e.NewSpace(t, restricted), runs: e2e.NewSpace(t, restricted),
		tenants: e2e.NewSpace(t, restricted, e2e.Labels(map[string]string{"code-sandbox.dev/enabled": "true"})),
		given: given,
	}
	p.release = p.system.Name
	p.upgrade(t, given)
	t.Cleanup(func() {
		if out, err := p.helm("uninstall", p.release, "--wait", "--timeout", "60s"); err != nil {
			t.Errorf("cannot uninstall: %v: %s", err, out)
		}
	})
	return p
}

// upgrade installs the chart or changes its values, and waits for the rollout.
func (p *platform) upgrade(t *testing.T, change settings) {
	t.Helper()
	if out, err := p.apply(change, "--wait", "--timeout", "120s"); err != nil {
		p.logs(t)
		t.Fatalf("cannot install: %v: %s", err, out)
	}
}

func (p *platform) apply(change settings, flags ...string) (string, error) {
	values := settings{
		"image.repository":     "",
		"runs.namespace":       p.runs.Name,
	}
	for k, v := range change {
		values[k] = v
	}
	args := []string{"upgrade", "--install", p.release, chart()}
	for _, k := range sortedKeys(values) {
		args = append(args, "--set", k+"="+values[k])
	}
	return p.helm(append(args, flags...)...)
}

func (p *platform) helm(args ...string) (string, error) {
	bed := p.system.Bed
	cmd := exec.Command(filepath.Join(bed.Bin, "helm"), append(args, "--namespace", p.system.Name)...)
	cmd.Env = append(os.Environ(), bed.Env()...)
	cmd.Env = append(cmd.Env, "HELM_CACHE_HOME="+filepath.Join(bed.Work, "helm"), "HELM_CONFIG_HOME="+filepath.Join(bed.Work, "helm"),
		"HELM_DATA_HOME="+filepath.Join(bed.Work, "helm"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
