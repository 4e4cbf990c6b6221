package injector

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Verdict is what becomes of a pod.
type Verdict struct {
	// Reason is why it is not injected; empty when it is.
	Reason Reason
	// Message is the sentence for people; empty when there is nothing to tell.
	Message string
}

// systemNamespaces are Kubernetes' own. A cluster must come up without us.
var systemNamespaces = []string{"kube-system", "kube-public", "kube-node-lease"}

// Decide says whether a pod is to be injected. namespace is the pod's, as the
// request names it: a pod that is being created may not say it itself.
func Decide(pod *corev1.Pod, namespace *corev1.Namespace, c Config) Verdict {
	switch {
	case slices.Contains(systemNamespaces, namespace.Name):
		return Verdict{Reason: SystemNamespace}
	case namespace.Name == c.Namespace || namespace.Name == c.RunsNamespace:
		return Verdict{Reason: OwnNamespace}
	case !enrolls(namespace):
		return Verdict{Reason: NotEnrolled}
	case pod.Labels[LabelKind] != "":
		return Verdict{Reason: IsSandbox}
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return Verdict{Reason: MirrorPod}
	}
	switch v := pod.Annotations[KeyInject]; v {
	case "", "true":
	case "false":
		return Verdict{OptedOut, "the pod has the annotation " + KeyInject + "=false, so it has no sidecar"}
	default:
		return Verdict{BadAnnotation, fmt.Sprintf("the pod's annotation %s is %q; it must be true or false", KeyInject, clip(v))}
	}
	if v := hookContainers(pod); v.Reason != "" {
		return v
	}
	return possible(pod, c)
}

// judge says what becomes of a pod, and under which policy. unknown are its
// annotations that mean nothing.
func judge(pod *corev1.Pod, namespace *corev1.Namespace, c Config) (v Verdict, policy Policy, unknown []string) {
	v = Decide(pod, namespace, c)
	if v.Reason != "" {
		if k := kinds[v.Reason]; (k == chosen || k == impossible) && marked(pod) { // it would be taken for one that was injected
			return foreign(pod, v.Message), nil, nil
		}
		return v, nil, nil
	}
	policy, unknown, err := Resolve(c.Defaults, namespace.Annotations, pod.Annotations)
	if err != nil {
		return Verdict{BadAnnotation, err.Error()}, nil, nil
	}
	if claims(pod) {
		if what := (maker{config: c, policy: policy}).differs(pod); what != "" {
			return foreign(pod, what), nil, nil
		}
	}
	return Verdict{}, policy, unknown
}

// possible says what keeps a pod from having a sidecar.
func possible(pod *corev1.Pod, config Config) Verdict {
	if pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows || pod.Spec.NodeSelector[corev1.LabelOSStable] == "windows" {
		return Verdict{Windows, "the pod is for Windows, where the sidecar does not run"}
	}
	if pod.Spec.HostNetwork {
		return Verdict{HostNetwork, "the pod uses its node's network: its localhost is shared with every other such pod, and a sidecar there " +
			"would answer them all with this pod's rights"}
	}
	injected := claims(pod)
	for i, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			ours := c.Name == SidecarName || isStep(c.Name)
			if ours && injected && i == 0 {
				continue // the maker looks at it
			}
			if ours {
				return Verdict{NameTaken, fmt.Sprintf("the pod has a container called %q of its own", clip(c.Name))}
			}
			if v := portTaken(c); v.Reason != "" {
				return v
			}
			if v := mountsOurs(c, injected, config.Hook); v.Reason != "" {
				return v
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		if !injected && (v.Name == TokenVolume || v.Name == HookVolume) {
			return Verdict{NameTaken, fmt.Sprintf("the pod has a volume called %q of its own", v.Name)}
		}
	}
	return Verdict{}
}

// mountsOurs finds a container that mounts a volume of ours by its name: it would
// have the token for the pool, which is the sidecar's alone, or the hook where
// nothing loads it. A mount over the hook would hide it.
func mountsOurs(c corev1.Container, injected, hook bool) Verdict {
	for _, m := range c.VolumeMounts {
		switch {
		case injected && sameMount(m, hookMount):
		case m.Name == TokenVolume || m.Name == HookVolume:
			return Verdict{NameTaken, fmt.Sprintf("the container %q mounts the volume %q, which is not for it", c.Name, m.Name)}
		case hook && overlaps(m.MountPath, hookFolder):
			return Verdict{NameTaken, fmt.Sprintf("the container %q mounts the volume %q at %q, where the tool-call hook is", c.Name, m.Name, clip(m.MountPath))}
		}
	}
	return Verdict{}
}

func portTaken(c corev1.Container) Verdict {
	for _, p := range c.Ports {
		if p.Protocol != corev1.ProtocolUDP && (p.ContainerPort == apiPort || p.ContainerPort == adminPort) {
			return Verdict{PortTaken, fmt.Sprintf("the container %q listens on port %d, which the sidecar needs", c.Name, p.ContainerPort)}
		}
	}
	return Verdict{}
}

// hookContainers holds the annotation that names containers against the pod.
func hookContainers(pod *corev1.Pod) Verdict {
	for _, name := range split(pod.Annotations[KeyContainers]) {
		if !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }) {
			return Verdict{BadAnnotation, fmt.Sprintf("the pod's annotation %s names %q, and it has no such container", KeyContainers, clip(name))}
		}
	}
	return Verdict{}
}

func split(list string) []string {
	var words []string
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}
