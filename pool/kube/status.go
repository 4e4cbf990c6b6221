package kube

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// ending is how a pod ended, as far as its status tells.
type ending struct {
	outcome wire.Outcome
	reason  string
}

// endingOf names how a run ended whose connection broke, from the status of its
// pod; nil when the status does not tell, or does not tell yet.
func endingOf(p *corev1.Pod) *ending {
	if p == nil {
		return nil
	}
	if e := podEnding(p); e != nil {
		return e
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == containerName && c.State.Terminated != nil && c.State.Terminated.Reason == "OOMKilled" {
			return &ending{wire.OutOfMemory, "The sandbox used more memory than its limit and was ended by the kernel. Use less memory, or have the limit raised."}
		}
	}
	return conditionEnding(p)
}

// podEnding is what the pod's own reason tells. The kubelet has one reason,
// Evicted, for several causes: the disk is told from its message alone.
func podEnding(p *corev1.Pod) *ending {
	said := p.Status.Message
	switch p.Status.Reason {
	case "Evicted":
		if strings.Contains(said, "EmptyDir volume") || strings.Contains(said, "ephemeral") && strings.Contains(said, "exceed") {
			return &ending{wire.DiskFull, "The sandbox wrote more than its limit on disk allows: " + said}
		}
		return &ending{wire.Evicted, "The node ended the sandbox to help itself: " + said}
	case "DeadlineExceeded":
		return &ending{wire.Timeout, "The sandbox outlived its last deadline and was ended by the cluster."}
	case "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "NodeAffinity":
		return &ending{wire.NodeLost, "The node of the sandbox went away: " + orReason(said, p.Status.Reason)}
	case "Preempting":
		return &ending{wire.Evicted, "The sandbox made room for a pod of a higher priority: " + said}
	}
	return nil
}

// conditionEnding is what the condition DisruptionTarget tells, or a node that
// no longer reports: a pod without probes is not ready, while its container
// runs, only when the node is not.
func conditionEnding(p *corev1.Pod) *ending {
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue:
			switch c.Reason {
			case "DeletionByTaintManager", "DeletionByPodGC":
				return &ending{wire.NodeLost, "The node of the sandbox went away: " + orReason(c.Message, c.Reason)}
			default:
				return &ending{wire.Evicted, "The cluster ended the sandbox: " + orReason(c.Message, c.Reason)}
			}
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && p.DeletionTimestamp == nil && running(p):
			return &ending{wire.NodeLost, "The node of the sandbox stopped reporting."}
		}
	}
	return nil
}

func running(p *corev1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == containerName {
			return c.State.Running != nil && c.Ready
		}
	}
	return false
}

func orReason(message, reason string) string {
	if message == "" {
		return reason
	}
	return message
}

// over says whether nothing runs in the pod any more, and why.
func over(p *corev1.Pod) (why string, yes bool) {
	if p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
		return "", false
	}
	if e := endingOf(p); e != nil {
		return e.reason, true
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == containerName && c.State.Terminated != nil {
			return fmt.Sprintf("its runner ended with exit code %d", c.State.Terminated.ExitCode), true
		}
	}
	return orReason(p.Status.Message, "its pod has "+strings.ToLower(string(p.Status.Phase))), true
}

// Reasons of a start that failed: the one word in api.Error.Reason.
const (
	reasonRefused       = "refused"         // by the API server: quota, rights, policy
	reasonAPIServer     = "api_server"      // it did not answer, or failed
	reasonUnschedulable = "unschedulable"   // no node takes the pod
	reasonImage         = "image_pull"      // an image cannot be had
	reasonContainer     = "container_start" // a container cannot be started
	reasonMutated       = "pod_mutated"     // admission changed the pod
	reasonRunner        = "runner"          // the runner is not ready
	reasonNetwork       = "network_open"    // the sandbox has a network
	reasonLost          = "lost"            // the pod went away
)

// startFailure names what keeps a pod from starting: an image that cannot be
// had, a container that cannot be made, no node that takes it; nil while there
// is hope. waited is how long the pod has existed, patience how long a pod may
// find no node (one may be on its way).
func startFailure(p *corev1.Pod, waited, patience time.Duration) *api.Error {
	if why, yes := over(p); yes {
		return api.Errorf(api.NoCapacity, "cannot start a sandbox: it ended before it was ready: %s", why).Because(reasonLost)
	}
	if p.DeletionTimestamp != nil {
		return api.Errorf(api.NoCapacity, "cannot start a sandbox: its pod was deleted by somebody else").Because(reasonLost)
	}
	for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range all {
			if err := containerFailure(p, c); err != nil {
				return err
			}
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && waited >= patience {
			return api.Errorf(api.NoCapacity, "cannot start a sandbox: no node takes it: %s", orReason(c.Message, c.Reason)).
				Because(reasonUnschedulable).After(10 * time.Second)
		}
	}
	return nil
}

func containerFailure(p *corev1.Pod, c corev1.ContainerStatus) *api.Error {
	if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
		return api.Errorf(api.NoCapacity, "cannot start a sandbox: its container %q ended with exit code %d: %s",
			c.Name, t.ExitCode, orReason(t.Message, t.Reason)).Because(reasonContainer)
	}
	w := c.State.Waiting
	if w == nil {
		return nil
	}
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
		"SignatureValidationFailed":
		return api.Errorf(api.NoCapacity, "cannot start a sandbox: the image %q cannot be had: %s: %s", imageOf(p, c.Name), w.Reason, w.Message).
			Because(reasonImage).After(10 * time.Second)
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "PostStartHookError":
		return api.Errorf(api.NoCapacity, "cannot start a sandbox: its container %q of the image %q cannot be started: %s: %s",
			c.Name, imageOf(p, c.Name), w.Reason, w.Message).Because(reasonContainer)
	}
	return nil
}

// imageOf is the image as it was asked for: a status may name it otherwise, or
// not at all.
func imageOf(p *corev1.Pod, container string) string {
	for _, all := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range all {
			if c.Name == container {
				return c.Image
			}
		}
	}
	return ""
}
