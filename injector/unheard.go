package injector

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// hookPatience is what an agent gets to load its code and say hello.
const hookPatience = time.Minute

// hookless says whether a pod that requires the hook runs without one: its
// sidecar, which is ready once it has heard of the hook, is not.
func hookless(pod *corev1.Pod, now time.Time) bool {
	var p Policy
	if json.Unmarshal([]byte(pod.Annotations[KeyPolicy]), &p) != nil || !p.requiresHook() {
		return false
	}
	i := slices.IndexFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == SidecarName })
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || i < 0 {
		return false
	}
	s := pod.Status.InitContainerStatuses[i]
	return s.State.Running != nil && !s.Ready && now.Sub(s.State.Running.StartedAt.Time) > hookPatience
}

// requiresHook says whether a pod is ready only once its hook was heard of.
func (p Policy) requiresHook() bool { return p[keyRequireHook] == "true" && p[keyTools] != "off" }
