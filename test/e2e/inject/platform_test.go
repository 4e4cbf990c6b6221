//go:build e2e

package inject

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// platform is an installation of the chart code-sandbox. Its names are fixed,
// so there is one in a cluster, and the tests of this package share it.
type platform struct {
	system, runs *e2e.Space
}

const release = "platform"

var restricted = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}

// TestPlatform installs the charts once, and everything else is a part of it:
// the last parts take the platform away.
func TestPlatform(t *testing.T) {
	p := &platform{system: e2e.NewSpace(t, e2e.Labels(restricted)), runs: e2e.NewSpace(t, e2e.Labels(restricted))}
	early := p.agents(t) // it has a pod before the injector is there
	p.createBefore(early)
	p.mustHelm(t, p.install("install")...)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if out, err := p.system.Helm(ctx, "status", release); err == nil {
			if out, err := p.system.Helm(ctx, "uninstall", release, "--wait", "--timeout", "120s"); err != nil {
				t.Errorf("cannot uninstall: %v: %s", err, out)
			}
		} else if !strings.Contains(out, "not found") {
			t.Errorf("cannot ask for the release: %s", out)
		}
	})
	p.ready(t)
	t.Run("Agents", p.testAgents)
	t.Run("Images", p.testImages)
	t.Run("Rights", p.testRights)
	t.Run("Skips", p.testSkips)
	t.Run("Forged", p.testForged)
	t.Run("EnrolledNow", p.testEnrolledNow)
	t.Run("OnlyThePoolMakesSandboxes", p.testAdmissionPolicy)
	t.Run("Chart", p.testAgentChart)
	t.Run("Audit", func(*testing.T) { p.testAudit(early) })
	t.Run("Authority", p.testAuthority)
	t.Run("Certificates", p.testCertificates)
	t.Run("Queries", p.testQueries)
	t.Run("Emptied", p.testEmptied)
	t.Run("Doctor", p.testDoctor)
	t.Run("Away", p.testAway)
	t.Run("GivenCertificates", p.testGivenCertificates)
	t.Run("Lifecycle", p.testLifecycle)
}

// agents is an enrolled namespace, with the strictest Pod Security.
func (p *platform) agents(t *testing.T) *e2e.Space {
	return e2e.NewSpace(t, e2e.Labels(restricted), e2e.Labels(map[string]string{"code-sandbox.dev/enabled": "true"}))
}

// install is what makes the chart that of this cluster.
func (p *platform) install(verb string, more ...string) []string {
	values := map[string]string{
		"runs.namespace": p.runs.Name, "sandbox.cpu": "500m", "sandbox.preload": "null", "pool.target": "1", "pool.max": "6",
		"pool.resources.requests.cpu": "10m", "injector.resources.requests.cpu": "10m", "injector.auditSeconds": "10",
		// Certificates change all the while, under every test.
		"pool.env.CODE_SANDBOX_CERTIFICATE_LIFE": certificateLife, "injector.env.CODE_SANDBOX_CERTIFICATE_LIFE": certificateLife,
	}
	for prefix, image := range map[string]string{"image": "code-sandbox", "sandbox.image": "python"} {
		values[prefix+".repository"], values[prefix+".digest"], _ = strings.Cut(p.system.Image(image), "@")
	}
	args := []string{verb, release, e2e.Chart("code-sandbox")}
	for k, v := range values {
		args = append(args, "--set", k+"="+v)
	}
	return append(args, more...)
}

func (p *platform) mustHelm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.system.Helm(t.Context(), args...)
	if err != nil {
		t.Fatalf("helm %s: %v: %s", args[0], err, out)
	}
	return out
}

// rollout bounds that of both replicas, one after the other, on a busy machine.
const rollout = 3 * time.Minute

// ready waits until all replicas of pool and injector are, of the newest
// template.
func (p *platform) ready(t *testing.T) {
	t.Helper()
	for _, name := range []string{"code-sandbox-injector", "code-sandbox-pool"} {
		err := e2e.Within(t.Context(), rollout, func(ctx context.Context) error {
			d, err := p.system.Kube.AppsV1().Deployments(p.system.Name).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			s := d.Status
			if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.ReadyReplicas != s.UpdatedReplicas ||
				s.Replicas != s.UpdatedReplicas {
				return fmt.Errorf("its status is %+v", s)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s is not ready within %s: %v", name, rollout, err)
		}
	}
}

// asks is an agent's first line of code: it calls the sidecar at once.
const asks = `
import json, urllib.request
body = json.dumps({"code": "print(6 * 7)"}).encode()
request = urllib.request.Request("http://localhost:8900/run_python", body, {"Content-Type": "application/json"})
print("answer", json.load(urllib.request.urlopen(request, timeout=120))["stdout"], end="")
`

// agent is a pod whose program asks once and ends.
func agent(s *e2e.Space, name, image string) *corev1.Pod {
	s.T.Helper()
	pod := s.Pod(name, image)
	pod.Spec.Containers[0].Command = []string{"python3", "-u", "-c", asks}
	pod.Spec.Containers[0].Args = nil
	return pod
}

// answered waits for the end of a pod's program, and sees its answer.
func answered(s *e2e.Space, pod string) {
	s.T.Helper()
	s.WaitPod(pod, "is over", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	if said := s.Log(pod, "main"); said != "answer 42\n" {
		s.T.Errorf("%s: the agent says %q", pod, said)
	}
}

// injected says whether a pod has its sidecar.
func injected(p *corev1.Pod) bool {
	for _, c := range p.Spec.InitContainers {
		if c.Name == "code-sandbox-sidecar" {
			return true
		}
	}
	return false
}
