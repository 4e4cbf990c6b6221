package injector

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// claims says whether a pod comes as one that was injected: the API server asks
// again when another webhook has changed a pod, and anybody can write the same.
func claims(pod *corev1.Pod) bool {
	return pod.Annotations[KeyInjected] != "" && hasContainer(pod.Spec.InitContainers, SidecarName)
}

// marked says whether a pod has an annotation that only the injector writes.
func marked(pod *corev1.Pod) bool {
	_, injected := pod.Annotations[KeyInjected]
	_, policy := pod.Annotations[KeyPolicy]
	return injected || policy
}

// foreign refuses a pod that is not what it says. It is made anew from what its
// author wrote, never mended: what else is in it is nobody's word.
func foreign(pod *corev1.Pod, what string) Verdict {
	return Verdict{ForeignSidecar, fmt.Sprintf("%s; the pod says that it was injected and is not as the injector makes it: remove %s from it, "+
		"which the injector adds itself, and make it anew", what, strings.Join(additions(pod), ", "))}
}

// additions are what of a pod the injector alone should have added.
func additions(pod *corev1.Pod) (names []string) {
	for _, key := range []string{KeyInjected, KeyPolicy} {
		if _, ok := pod.Annotations[key]; ok {
			names = append(names, "the annotation "+key)
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if c.Name == SidecarName || isStep(c.Name) {
				names = append(names, fmt.Sprintf("the container %q", clip(c.Name)))
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.Name == TokenVolume || v.Name == HookVolume {
			names = append(names, fmt.Sprintf("the volume %q and its mounts", v.Name))
		}
	}
	return names
}

// maker is an injector: what it would have made of a pod.
type maker struct {
	config Config
	policy Policy
	// another says that it is of another version: only what all have in common is
	// known of what it makes.
	another bool
}

// differs says in a sentence what of a pod is not as this injector makes it. What
// others add to every container (variables, mounts, defaults) is no difference
// as long as it changes nothing of ours.
func (m maker) differs(pod *corev1.Pod) string {
	if have := pod.Annotations[KeyInjected]; have != m.config.Image {
		return fmt.Sprintf("its annotation %s is %q, and the sidecar's image is %q", KeyInjected, clip(have), m.config.Image)
	}
	if m.another {
		return m.containers(pod)
	}
	if have := pod.Annotations[KeyPolicy]; have != m.policy.String() {
		return fmt.Sprintf("its annotation %s is not the policy in force, %s", KeyPolicy, m.policy)
	}
	wants := []corev1.Volume{tokenVolume(m.config)}
	if m.hooks() {
		wants = append(wants, hookVolume())
	}
	for _, name := range []string{TokenVolume, HookVolume} {
		if !sameVolume(named(pod.Spec.Volumes, name), named(wants, name)) {
			return fmt.Sprintf("its volume %q is another or is missing", name)
		}
	}
	if m.hooks() && !hasContainer(pod.Spec.InitContainers, HookName) {
		return fmt.Sprintf("it has no container %q", HookName)
	}
	return m.containers(pod)
}

// hooks says whether the agent's containers get the hook.
func (m maker) hooks() bool { return m.config.Hook && m.policy[keyTools] != "off" }

func (m maker) containers(pod *corev1.Pod) string {
	for _, c := range pod.Spec.InitContainers {
		want := m.container(pod, c)
		switch {
		case want == nil && (c.Name == SidecarName || isStep(c.Name)):
			return fmt.Sprintf("it has a container %q, which is not for it", clip(c.Name))
		case want == nil:
			continue
		}
		if what := m.alters(&c, want); what != "" {
			return fmt.Sprintf("its container %q has %s", c.Name, what)
		}
	}
	return ""
}

// container is what we would have made of that name, if anything.
func (m maker) container(pod *corev1.Pod, have corev1.Container) *corev1.Container {
	number, record := strings.CutPrefix(have.Name, recordPrefix)
	switch {
	case have.Name == SidecarName:
		return new(sidecarContainer(pod, m.config, m.policy))
	case have.Name == HookName && m.hooks():
		return new(hookContainer(pod, m.config))
	case record && m.hooks():
		step := recordContainer(pod, m.config, number)
		// It is of an agent's image, and that is the agent's own word.
		step.Image, step.ImagePullPolicy = have.Image, have.ImagePullPolicy
		return &step
	}
	return nil
}

func named(volumes []corev1.Volume, name string) *corev1.Volume {
	if i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == name }); i >= 0 {
		return &volumes[i]
	}
	return nil
}

// sameVolume compares a pod's volume with ours; none with none.
func sameVolume(have, want *corev1.Volume) bool {
	if have == nil || want == nil {
		return have == want
	}
	source := have.DeepCopy().VolumeSource
	if source.Projected != nil {
		source.Projected.DefaultMode = nil // the API server's default
	}
	return equality.Semantic.DeepEqual(source, want.VolumeSource)
}
