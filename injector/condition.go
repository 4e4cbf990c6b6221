package injector

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ConditionHook is the condition of a pod that requires the hook: whether it was
// heard of. It is there once that is known, and False means what the Event says.
const ConditionHook corev1.PodConditionType = "code-sandbox.dev/HookHeard"

// hookCondition is what the condition of a pod should say, and does not yet.
func hookCondition(pod *corev1.Pod, now time.Time) (c corev1.PodCondition, due bool) {
	c = corev1.PodCondition{Type: ConditionHook, Status: corev1.ConditionTrue, Reason: "HookHeard", Message: "a process of it has loaded the tool-call hook and registered a tool", LastTransitionTime: metav1.NewTime(now)}
	switch {
	case hookless(pod, now):
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "HookMissing", missingHook
	case !heard(pod):
		return c, false
	}
	return c, !slices.ContainsFunc(pod.Status.Conditions, func(is corev1.PodCondition) bool { return is.Type == c.Type && is.Status == c.Status })
}

// heard says whether a pod that requires the hook has been heard of: its sidecar is
// ready.
func heard(pod *corev1.Pod) bool {
	var p Policy
	if json.Unmarshal([]byte(pod.Annotations[KeyPolicy]), &p) != nil || !p.requiresHook() || pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == SidecarName && s.State.Running != nil && s.Ready
	})
}

// condition writes down whether a pod's hook was heard of. What cannot be written
// is tried again at the next audit.
func (a *audit) condition(ctx context.Context, pod *corev1.Pod, now time.Time) {
	c, due := hookCondition(pod, now)
	if !due {
		return
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, // of the very pod
		"status":   map[string]any{"conditions": []corev1.PodCondition{c}},
	})
	if err == nil {
		_, err = a.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		a.log.Warn("cannot write the condition of a pod", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
	}
}
