//go:build e2e

// Package runs tests run_python on a real cluster: agents in pods, their
// sidecars, replicas of the pool, and one pod for each run. There is one
// installation of the chart in a cluster, so its tests share it, one after
// another; each says with which values of the chart it wants it.
package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

const (
	release       = "platform"
	systemName    = "e2e-system"
	sandboxesName = "e2e-runs"
	tenantsName   = "e2e-agents"
	poolName      = "code-sandbox-pool"
)

// settings are values of the chart.
type settings map[string]any

// base is the installation that most tests use. The node is small: what its
// sandboxes ask for ahead is, too.
func base(s *e2e.Space) settings {
	repository, digest := parts(s.Image("code-sandbox"))
	python, pythonDigest := parts(s.Image("python"))
	return settings{
		"runs.namespace": sandboxesName, "image.repository": repository, "image.digest": digest,
		"sandbox.image.repository": python, "sandbox.image.digest": pythonDigest,
		"sandbox.cpuRequest": "20m", "pool.resources.requests.cpu": "10m", "pool.max": 24,
		"sandbox.preload": []string{}, "pool.inFlightPerCaller": 64, "pool.drainSeconds": 30, "injector.enabled": false,
		// Orphans of a replica that was killed are taken for such soon.
		"pool.env": map[string]string{"CODE_SANDBOX_LEASE_DURATION": "5s"},
	}
}

func parts(image string) (repository, digest string) {
	repository, digest, _ = strings.Cut(image, "@")
	return repository, digest
}

// installed is how the platform stands, and nil before it does. It belongs to
// the one test that runs.
var installed settings

// platform is the installation, as one test sees it.
type platform struct {
	system, sandboxes, tenants *e2e.Space
}

// use brings the installation to the base with some values changed.
func use(t *testing.T, changed settings) *platform {
	t.Helper()
	restricted := e2e.Labels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	p := &platform{
		system:    e2e.OpenSpace(t, systemName, restricted),
		sandboxes: e2e.OpenSpace(t, sandboxesName, restricted),
		tenants:   e2e.OpenSpace(t, tenantsName, restricted, e2e.Labels(map[string]string{"code-sandbox.dev/enabled": "true"})),
	}
	t.Cleanup(func() { p.tell(t) })
	want := base(p.system)
	maps.Copy(want, changed)
	if reflect.DeepEqual(want, installed) {
		return p
	}
	p.upgrade(t, want, "--wait")
	p.settled(t)
	return p
}

// upgrade installs the chart, or changes its values.
func (p *platform) upgrade(t *testing.T, want settings, flags ...string) {
	t.Helper()
	installed = nil
	uninstall = func() error {
		out, err := p.system.Helm(context.Background(), "uninstall", release, "--wait", "--timeout", "60s")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	args := []string{"upgrade", "--install", release, e2e.Chart("code-sandbox"), "--timeout", "120s"}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		value, err := json.Marshal(want[k])
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "--set-json", k+"="+string(value))
	}
	if out, err := p.system.Helm(t.Context(), append(args, flags...)...); err != nil {
		t.Fatalf("cannot install: %v: %s", err, out)
	}
	installed = want
}

// settled waits until the replicas of before are gone, with their sandboxes.
func (p *platform) settled(t *testing.T) {
	t.Helper()
	p.system.Eventually("the replicas of before are gone", func(ctx context.Context) error {
		pods, err := p.system.Parts(ctx, "pool")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if pod.DeletionTimestamp != nil {
				return fmt.Errorf("%s is ending", pod.Name)
			}
		}
		return nil
	})
}

// tell tells the log of a test that failed what the pool said, and what it has.
func (p *platform) tell(t *testing.T) {
	if !t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	pods, err := p.system.Parts(ctx, "pool")
	if err != nil {
		t.Logf("cannot list the replicas: %v", err)
	}
	lines, most := int64(40), int64(12<<10)
	for _, pod := range pods {
		said, err := p.system.Kube.CoreV1().Pods(systemName).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &lines, LimitBytes: &most}).DoRaw(ctx)
		t.Logf("%s, %s, said (%v):\n%s", pod.Name, pod.Status.Phase, err, said)
	}
	boxes, err := p.boxes(ctx)
	if err != nil {
		t.Logf("cannot list the sandboxes: %v", err)
	}
	for _, b := range boxes {
		t.Logf("sandbox %s of %s: %s, made %s", b.Name, b.Labels["code-sandbox.dev/replica"], b.Status.Phase, b.CreationTimestamp)
	}
}

// boxes are the pods in the namespace of runs.
func (p *platform) boxes(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := p.sandboxes.Kube.CoreV1().Pods(sandboxesName).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}
