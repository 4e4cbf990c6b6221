//go:build e2e

package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// ready says whether a pod is.
func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// T16: python -I loads no hook. A pod that requires one is not ready, and an
// Event says why; another one that has it becomes ready.
func (p *platform) testIsolated(t *testing.T) {
	s := p.agents
	idle := "import time; time.sleep(600)"
	s.Create(annotate(p.agent("isolated", "python3", "-I", "-c", idle), "require-hook", "true"),
		annotate(p.agent("heard", "python3", "-u", "server_agent.py"), "require-hook", "true"))
	s.EventuallyIn(patience, "an Event tells of the hook that is missing", func(ctx context.Context) error {
		events, err := s.Kube.CoreV1().Events(s.Name).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=isolated,reason=SandboxHookMissing"})
		if err != nil {
			return err
		}
		if len(events.Items) == 0 || !strings.Contains(events.Items[0].Message, "-I, -E or -S") {
			return fmt.Errorf("the Events are %v", events.Items)
		}
		return nil
	})
	if ready(s.Get("isolated")) {
		t.Error("a pod without the hook that it requires is ready")
	}
	s.WaitReady("heard")
	for name, want := range map[string]corev1.ConditionStatus{"isolated": corev1.ConditionFalse, "heard": corev1.ConditionTrue} {
		s.EventuallyIn(patience, "a condition tells whether the hook was heard of", func(context.Context) error {
			for _, c := range s.Get(name).Status.Conditions {
				if c.Type == "code-sandbox.dev/HookHeard" && c.Status == want {
					return nil
				}
			}
			return fmt.Errorf("the conditions of %q are %v", name, s.Get(name).Status.Conditions)
		})
	}
}

// T17: code that is in no image is refused with a reason, and runs nowhere.
func (p *platform) testCodeOnAVolume(t *testing.T) {
	pod := p.agent("volume", "python3", "-u", "-c", `
import json, os, sys
sys.path.insert(0, "/config")
import late
try:
    said = late.late.invoke({"path": "/tmp/mark"})
except Exception as error:
    said = "%s: %s" % (type(error).__name__, error)
print("RESULT " + json.dumps({"said": [said], "marks": [p for p in ["/tmp/mark"] if os.path.exists(p)]}), flush=True)
`)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}})
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/config"})
	r := p.run(t, pod)
	if !strings.HasPrefix(r.Said[0], "Unsandboxable: ") || !strings.Contains(r.Said[0], "late") || len(r.Marks) > 0 {
		t.Errorf("the call ended with %q and left %q", r.Said[0], r.Marks)
	}
}

// T18: a body that floods its output or forges results is bounded or an error,
// and its agent is unharmed.
func (p *platform) testHostile(t *testing.T) {
	f := func(then, says string) {
		t.Helper()
		r := p.run(t, p.agent("hostile-"+then, calls(t, call("marked", map[string]any{"path": "/tmp/mark", "then": then}))...))
		if !strings.Contains(r.Said[0], says) || strings.Contains(r.Said[0], "forged") || len(r.Marks) > 0 {
			t.Errorf("%s: the call ended with %q, and the agent has the marks %q", then, r.Said[0], r.Marks)
		}
	}
	// 256 MiB of output: the value is the function's.
	f("noise", "done")
	// It ends its interpreter instead of returning.
	f("exit", "SandboxUnavailable: the tool ended its sandbox before it returned")
	// Frames with a nonce that it made up.
	f("forge", "SandboxUnavailable: the sandbox's answer was refused: it does not carry the nonce")
}

// T20: a call that takes too long is over at its bound, and its copy is gone
// within 2 s.
func (p *platform) testTimeout(t *testing.T) {
	s := p.agents
	wanted := calls(t, call("marked", map[string]any{"path": "/tmp/mark", "then": "sleep"}))
	pod := annotate(p.agent("slow", staying(wanted)...), "tool-timeout", "20", "tools-include", "marked")
	s.Create(pod) // with one tool: the first copy is the one that is called
	var used []types.UID
	s.EventuallyIn(patience, "there is a copy", func(ctx context.Context) error {
		list, err := p.copies(ctx)
		if err != nil {
			return err
		}
		for _, c := range list {
			if len(c.OwnerReferences) == 1 && c.OwnerReferences[0].Name == "slow" {
				used = append(used, c.UID)
			}
		}
		if len(used) == 0 {
			return errNotYet
		}
		return nil
	})
	r := p.said(t, "slow")
	if !strings.Contains(r.Said[0], "SandboxUnavailable: the tool took too long: it did not end within its timeout of 20s") || len(r.Marks) > 0 {
		t.Errorf("the call ended with %q, and the agent has the marks %q", r.Said[0], r.Marks)
	}
	err := e2e.Within(t.Context(), 2*time.Second, func(ctx context.Context) error {
		list, err := p.copies(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(c corev1.Pod) bool { return c.UID == used[0] && c.DeletionTimestamp == nil }) {
			return errNotYet
		}
		return nil
	})
	if err != nil {
		t.Errorf("the copy is not gone after 2 s: %v", err)
	}
}

// T20: without a pool a call is an error, and the body runs nowhere.
func (p *platform) testNoPool(t *testing.T) {
	p.system.Scale("code-sandbox-pool", 0)
	p.system.Eventually("the pool is gone", func(ctx context.Context) error {
		pods, err := p.system.Parts(ctx, "pool")
		if err == nil && len(pods) > 0 {
			err = errNotYet
		}
		return err
	})
	r := p.run(t, annotate(p.agent("no-pool", calls(t, call("marked", map[string]any{"path": "/tmp/mark", "then": ""}))...), "tool-timeout", "10"))
	if !strings.HasPrefix(r.Said[0], "SandboxUnavailable: ") || !strings.Contains(r.Said[0], "pool") || len(r.Marks) > 0 {
		t.Errorf("the call ended with %q, and the agent has the marks %q", r.Said[0], r.Marks)
	}
	p.system.Scale("code-sandbox-pool", 1)
}
