package injector

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
)

// The reasons of our Events; their messages begin with ours.
const (
	eventSkipped = "SandboxSidecarSkipped"
	eventDenied  = "SandboxSidecarDenied"
	eventMissed  = "SandboxSidecarMissing"
	eventUnheard = "SandboxHookMissing"
)

// events tells people, where they look first, that a pod has no sidecar. The
// recorder bounds what it sends, so a flood of pods is no flood of Events.
type events struct{ to record.EventRecorder }

func (e events) admission(pod *corev1.Pod, namespace string, a answer) {
	k := kinds[a.verdict.Reason]
	if a.result == injected || k == expected {
		return
	}
	reason, severity := eventSkipped, corev1.EventTypeWarning
	if a.result == denied {
		reason = eventDenied
	} else if k == chosen {
		severity = corev1.EventTypeNormal
	}
	e.to.Event(about(pod, namespace), severity, reason, string(a.verdict.Reason)+": "+a.verdict.Message)
}

// about is what an Event is attached to. The pod itself is not there yet, and
// may have no name: its owner is where people look.
func about(pod *corev1.Pod, namespace string) *corev1.ObjectReference {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return &corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Namespace: namespace}
	}
	name := pod.Name
	if name == "" {
		name = pod.GenerateName + "x"
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: pod.UID, Namespace: namespace}
}

func (e events) missing(pod *corev1.Pod, v Verdict) {
	e.to.Event(itself(pod), corev1.EventTypeWarning, eventMissed, string(v.Reason)+": "+v.Message)
}

// missingHook is what a pod's Event and its condition say of a hook that was not
// heard of.
const missingHook = "its annotation " + Prefix + keyRequireHook + " is true, and no process of it has loaded the tool-call hook and registered a tool; " +
	"Python with -I, -E or -S loads none, and neither does one that is started without the pod's PYTHONPATH; while the pool was never reached, its sidecar is not ready either"

func (e events) unheard(pod *corev1.Pod) {
	e.to.Event(itself(pod), corev1.EventTypeWarning, eventUnheard, missingHook)
}

// itself is a pod that is there.
func itself(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Namespace: pod.Namespace}
}
