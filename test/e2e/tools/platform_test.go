//go:build e2e

package tools

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// platform is an installation of the charts, and a namespace of agents.
type platform struct {
	class                       string
	system, runs, agents, hooks *e2e.Space
}

const release = "platform"

var restricted = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}

// TestTools installs the charts once; each row of the cases is a part of it.
func TestTools(t *testing.T) { install(t, "").rows(t) }

// TestToolsInGVisor has the copies on another runtime, with a kernel of its own.
// Nothing that a row promises depends on that.
func TestToolsInGVisor(t *testing.T) { install(t, "gvisor").rows(t) }

func (p *platform) rows(t *testing.T) {
	t.Run("Ahead", p.testAhead) // the first: no other agent has a copy yet
	t.Run("Kernel", p.testKernel)
	t.Run("T1", p.testOpenAIAgents)
	t.Run("T2", p.testPydantic)
	t.Run("T5", p.testLangGraph)
	t.Run("T13", p.testServers)
	t.Run("T14", p.testKeyOfTheModule)
	t.Run("T16", p.testPaths)
	t.Run("T16/Isolated", p.testIsolated)
	t.Run("T17", p.testCodeOnAVolume)
	t.Run("T18", p.testHostile)
	t.Run("T19/Webhooks", p.testWebhooks)
	t.Run("Images/Moved", p.testMovedTag)
	t.Run("Images/Private", p.testPrivateImage)
	t.Run("Grants", p.testGrants)
	t.Run("T20", p.testTimeout)
	t.Run("T20/Killed", p.testKilled)
	t.Run("T20/NoPool", p.testNoPool)
}

// install installs the charts, with sandboxes of a runtime class (empty is the
// node's own runtime), and with an agents' namespace that has credentials.
func install(t *testing.T, class string) *platform {
	t.Helper()
	p := &platform{class: class, system: e2e.NewSpace(t, e2e.Labels(restricted)), runs: e2e.NewSpace(t, e2e.Labels(restricted)), hooks: e2e.NewSpace(t, e2e.Labels(restricted)),
		agents: e2e.NewSpace(t, e2e.Labels(restricted), e2e.Labels(map[string]string{"code-sandbox.dev/enabled": "true"}))}
	values := map[string]string{
		"runs.namespace": p.runs.Name, "sandbox.cpuRequest": "20m", "sandbox.preload": "null", "pool.replicas": "1", "pool.target": "1", "pool.max": "12",
		"pool.resources.requests.cpu": "10m", "injector.resources.requests.cpu": "10m", "injector.replicas": "1", "injector.auditSeconds": "10",
		"injector.hook": "true", "sandbox.runtimeClassName": class,
	}
	for prefix, image := range map[string]string{"image": "code-sandbox", "sandbox.image": "python"} {
		values[prefix+".repository"], values[prefix+".digest"], _ = strings.Cut(p.system.Image(image), "@")
	}
	args := []string{"install", release, e2e.Chart("code-sandbox"), "--wait", "--timeout", "180s"}
	for k, v := range values {
		args = append(args, "--set", k+"="+v)
	}
	t.Cleanup(func() {
		if out, err := p.system.Helm(context.WithoutCancel(t.Context()), "uninstall", release, "--wait", "--timeout", "120s"); err != nil {
			t.Errorf("cannot uninstall: %v: %s", err, out)
		}
	})
	t.Cleanup(func() { p.tell(t) })
	if out, err := p.system.Helm(t.Context(), args...); err != nil {
		t.Fatalf("cannot install: %v: %s", err, out)
	}
	if out, err := p.agents.Helm(t.Context(), "install", "agents", e2e.Chart("agent-namespace"), "--set", "platformNamespace="+p.system.Name); err != nil {
		t.Fatalf("cannot install the agents' chart: %v: %s", err, out)
	}
	p.credentials(t)
	return p
}

// tell tells the log of a test that failed what the pool said.
func (p *platform) tell(t *testing.T) {
	if !t.Failed() {
		return
	}
	ctx := context.WithoutCancel(t.Context())
	pods, err := p.system.Kube.CoreV1().Pods(p.system.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Logf("cannot list the platform's pods: %v", err)
		return
	}
	lines := int64(60)
	for _, pod := range pods.Items {
		said, err := p.system.Kube.CoreV1().Pods(p.system.Name).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
		t.Logf("%s said (%v):\n%s", pod.Name, err, said)
	}
}
