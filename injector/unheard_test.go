package injector

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unheard is an agent that requires the hook and runs for an hour without it.
func unheard(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := living("agents", "agent", injectedPod(t, hooked(), Prefix+keyRequireHook, "true"))
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: SidecarName,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))}}}}
	return pod
}

func TestHookless(t *testing.T) {
	f := func(want bool, change func(*corev1.Pod)) {
		t.Helper()
		pod := unheard(t)
		change(pod)
		if got := hookless(pod, time.Now()); got != want {
			t.Errorf("hookless is %v of %+v", got, pod)
		}
	}
	// It requires the hook, and its sidecar has not heard of one.
	f(true, func(*corev1.Pod) {})
	// Heard of; too young to say; over; going.
	f(false, func(p *corev1.Pod) { p.Status.InitContainerStatuses[0].Ready = true })
	f(false, func(p *corev1.Pod) {
		p.Status.InitContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(time.Now().Add(-hookPatience / 2))
	})
	f(false, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	f(false, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
	// Nobody requires it, or tools are off.
	f(false, func(p *corev1.Pod) { p.Annotations[KeyPolicy] = `{"tools":"enforce"}` })
	f(false, func(p *corev1.Pod) { p.Annotations[KeyPolicy] = `{"require-hook":"true","tools":"off"}` })
	f(false, func(p *corev1.Pod) { p.Annotations[KeyPolicy] = `{` })
}

// Such a pod is told of once, by an Event, and counted at each audit.
func TestAuditFindsPodsWithoutHook(t *testing.T) {
	a, _, recorder := newAudit(t, hooked(), enrolled(), unheard(t))
	m := a.metrics
	for range 2 {
		if err := a.once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := testutil.ToFloat64(m.hookless); n != 1 {
			t.Errorf("%v pods are counted", n)
		}
	}
	if said := <-recorder.Events; !strings.HasPrefix(said, "Warning SandboxHookMissing ") || len(recorder.Events) != 0 {
		t.Errorf("the Event is %q, and there are %d more", said, len(recorder.Events))
	}
	if err := a.kube.CoreV1().Pods("agents").Delete(t.Context(), "agent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := a.once(t.Context()); err != nil || testutil.ToFloat64(m.hookless) != 0 {
		t.Errorf("it is counted though it is gone: %v", err)
	}
}

// Whether the hook that a pod requires was heard of is a condition of the pod, once
// it is known; it is written when it changes, and of nobody else.
func TestHookCondition(t *testing.T) {
	pod := unheard(t)
	a, kube, _ := newAudit(t, testConfig(), enrolled(), pod)
	f := func(want corev1.ConditionStatus, reason string, patches int, change func(*corev1.Pod)) {
		t.Helper()
		p, err := kube.CoreV1().Pods("agents").Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err == nil {
			change(p)
			_, err = kube.CoreV1().Pods("agents").UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		kube.ClearActions()
		if err := a.once(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, action := range kube.Actions() {
			if action.Matches("patch", "pods/status") {
				n++
			}
		}
		if p, err = kube.CoreV1().Pods("agents").Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		var got corev1.PodCondition
		for _, c := range p.Status.Conditions {
			if c.Type == ConditionHook {
				got = c
			}
		}
		if got.Status != want || got.Reason != reason || n != patches || (want == corev1.ConditionFalse) != strings.Contains(got.Message, "-I, -E or -S") {
			t.Errorf("after %d patches the condition is %+v", n, got)
		}
	}
	none := func(*corev1.Pod) {}
	// Too young to say.
	f("", "", 0, func(p *corev1.Pod) {
		p.Status.InitContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(time.Now().Add(-hookPatience / 2))
	})
	f(corev1.ConditionFalse, "HookMissing", 1, func(p *corev1.Pod) {
		p.Status.InitContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(time.Now().Add(-time.Hour))
	})
	f(corev1.ConditionFalse, "HookMissing", 0, none)
	// Late, but heard of; its other conditions stay.
	f(corev1.ConditionTrue, "HookHeard", 1, func(p *corev1.Pod) {
		p.Status.InitContainerStatuses[0].Ready = true
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	})
	f(corev1.ConditionTrue, "HookHeard", 0, none)
	p, err := kube.CoreV1().Pods("agents").Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || len(p.Status.Conditions) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	// A pod that does not require it has none.
	other := unheard(t)
	other.Name, other.UID, other.Annotations[KeyPolicy] = "other", "u-8", Policy{keyTools: "enforce"}.String()
	if c, due := hookCondition(other, time.Now()); due {
		t.Errorf("%+v", c)
	}
	other.Status.InitContainerStatuses[0].Ready = true
	if c, due := hookCondition(other, time.Now()); due {
		t.Errorf("%+v", c)
	}
}
