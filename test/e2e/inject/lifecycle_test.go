//go:build e2e

package inject

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// createBefore makes a pod that no injector has seen.
func (p *platform) createBefore(s *e2e.Space) { s.Create(s.Pod("before", "probe", "sleep")) }

// P10, in part: the audit tells of a pod that was there before.
func (p *platform) testAudit(s *e2e.Space) {
	s.Eventually("an Event tells of the pod", func(ctx context.Context) error {
		events, err := s.Kube.CoreV1().Events(s.Name).List(ctx, metav1.ListOptions{FieldSelector: "reason=SandboxSidecarMissing"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == "before" && strings.HasPrefix(e.Message, "missed: ") {
				return nil
			}
		}
		return fmt.Errorf("the Events are %s", eventsOf(events.Items))
	})
}

// The chart for agents: its policy is in the pod, and its own test runs a
// program as an agent does.
func (p *platform) testAgentChart(t *testing.T) {
	s := p.agents(t)
	args := []string{"agents", e2e.Chart("agent-namespace"), "--set", "test.image.ref=" + s.Image("python"), "--set", "policy.tools=audit",
		"--set", "policy.toolEnvAllow={TZ,AWS_*}", "--set", "platformNamespace=" + p.system.Name}
	if out, err := s.Helm(t.Context(), append([]string{"install"}, args...)...); err != nil {
		t.Fatalf("cannot install: %v: %s", err, out)
	}
	want := `{"tool-env-allow":"TZ,AWS_*","tools":"audit"}`
	s.Eventually("a pod has the policy", func(ctx context.Context) error {
		pod, err := s.Kube.CoreV1().Pods(s.Name).Create(ctx, s.Pod("a", "probe", "sleep"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if got := pod.Annotations["code-sandbox.dev/policy"]; got != want {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	if out, err := s.Helm(t.Context(), "test", "agents", "--logs", "--timeout", "120s"); err != nil || !strings.Contains(out, `"stdout": "42\n"`) {
		t.Errorf("helm test: %v: %s", err, out)
	}
	if out, err := s.Helm(t.Context(), "uninstall", "agents", "--wait"); err != nil {
		t.Errorf("cannot uninstall: %v: %s", err, out)
	}
	// A namespace that is not enrolled is told how to be.
	out, err := p.runs.Helm(t.Context(), append([]string{"install"}, args...)...)
	if err == nil || !strings.Contains(out, "kubectl label namespace") {
		t.Errorf("a namespace that is not enrolled: %v: %s", err, out)
	}
}

// P10: without injectors agents fail closed; everybody else schedules, also our
// own pool and Kubernetes' own; with injectors all is well again.
func (p *platform) testAway(t *testing.T) {
	s := p.agents(t)
	p.system.Scale("code-sandbox-injector", 0)
	s.Eventually("agents are refused", func(ctx context.Context) error {
		_, err := s.Kube.CoreV1().Pods(s.Name).Create(ctx, s.Pod("a", "probe", "sleep"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("one was let in")
		}
		if !strings.Contains(err.Error(), "inject.code-sandbox.dev") {
			return err
		}
		return nil
	})
	own := p.system.Pod("own", "probe", "sleep")
	p.system.Create(own)
	system := p.system.Pod("code-sandbox-e2e", "probe", "sleep")
	if _, err := s.Kube.CoreV1().Pods("kube-system").Create(t.Context(), system, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("kube-system is not let in: %v", err)
	}
	pools := metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=pool"}
	now := int64(0)
	err := s.Kube.CoreV1().Pods(p.system.Name).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, pools)
	if err != nil {
		t.Fatal(err)
	}
	p.system.Scale("code-sandbox-injector", 2)
	p.ready(t)
	s.Create(agent(s, "agent", "agent-python"))
	answered(s, "agent")
	if err := s.Kube.CoreV1().Pods(p.system.Name).Delete(t.Context(), "own", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Error(err)
	}
}

// P11: upgraded twice and rolled back while certificates change, with an agent
// that asks all the while and always gets its answer; uninstalled, and nothing is
// left.
func (p *platform) testLifecycle(t *testing.T) {
	s := p.agents(t)
	noAdministrator(t, s.Kube, release)
	pod := agent(s, "agent", "agent-python")
	pod.Spec.Containers[0].Command[3] = keepsAsking
	s.Create(pod)
	s.Eventually("the agent has its first answer", func(ctx context.Context) error { return logHas(ctx, s, "answer 42") })

	p.mustHelm(t, p.install("upgrade")...)
	p.ready(t)
	p.mustHelm(t, p.install("upgrade", "--set", "pool.max=7", "--set", "injector.timeoutSeconds=9")...)
	p.ready(t)
	if out := p.mustHelm(t, "test", release, "--logs", "--timeout", "120s"); !strings.Contains(out, "injector ok") {
		t.Errorf("helm test says %s", out)
	}
	p.mustHelm(t, "rollback", release, "1")
	p.ready(t)
	s.Create(agent(s, "late", "agent-python"))
	answered(s, "late")
	if said := s.Log("agent", "main"); strings.Contains(said, "failed") || strings.Count(said, "answer 42") < 10 {
		t.Errorf("the agent says %s", said)
	}
	p.mustHelm(t, "uninstall", release, "--wait", "--timeout", "120s")
	p.nothingLeft(t)
}

const keepsAsking = "asks = '''" + asks + "'''" + `
import time
for _ in range(1000):
    try:
        exec(asks)
    except Exception as error:
        print("failed", error, getattr(error, "read", str)())
    time.sleep(1)
`

func logHas(ctx context.Context, s *e2e.Space, says string) error {
	raw, err := s.Kube.CoreV1().Pods(s.Name).GetLogs("agent", &corev1.PodLogOptions{Container: "main"}).DoRaw(ctx)
	if err != nil {
		return err
	}
	if !strings.Contains(string(raw), says) {
		return fmt.Errorf("the log is %q", raw)
	}
	return nil
}

// nothingLeft looks at everything that can be listed, for what the chart or its
// programs have made.
func (p *platform) nothingLeft(t *testing.T) {
	t.Helper()
	err := e2e.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
		left, err := p.left(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("there are still %q", left)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
