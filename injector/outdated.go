package injector

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// outdated says whether a pod that lives is as an injector made it on another day:
// under the policy and with the settings of that day, or by another version.
//
// The settings are taken from the pod's own word, and all else must be as this
// version makes it of them. Of another version, which is one whose image has
// another name, only this is known: each program of ours is of the image that the
// annotation names, and has no rights. Commands, mounts and probes may have been
// others.
//
// So it cannot tell a pod of another version from one whose author has written any
// image into it and the annotation to that. The admission, which believes nothing
// of this, refuses such a pod: one that runs came while nobody was asked. And a tag
// that was moved to another version makes pods of the former one look forged.
func outdated(pod *corev1.Pod, c Config) bool {
	was := maker{config: settingsOf(pod, c)}
	was.another = was.config.Image != c.Image
	if json.Unmarshal([]byte(pod.Annotations[KeyPolicy]), &was.policy) != nil {
		return false
	}
	if !was.another {
		var err error
		if was.policy, _, err = Resolve(was.policy, nil, nil); err != nil {
			return false
		}
	}
	return slices.ContainsFunc([]bool{true, false}, func(hook bool) bool {
		was.config.Hook = hook
		return possible(pod, was.config).Reason == "" && was.differs(pod) == ""
	})
}

// settingsOf are ours, except for those that a pod with a sidecar says itself and
// that change in the ordinary course: image, pull policy, user and authority. The
// pool that it calls is not among them.
func settingsOf(pod *corev1.Pod, c Config) Config {
	c.Image = pod.Annotations[KeyInjected]
	sidecar := pod.Spec.InitContainers[slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == SidecarName })]
	// Always is anybody's, and is no difference.
	if p := sidecar.ImagePullPolicy; p != "" && p != corev1.PullAlways {
		c.PullPolicy = p
	}
	if s := sidecar.SecurityContext; s != nil && s.RunAsUser != nil && *s.RunAsUser > 0 {
		c.UID = *s.RunAsUser
	}
	if i := last(sidecar.Env, poolCA); i >= 0 {
		// A value from elsewhere is never ours.
		if found, ok := certificates(sidecar.Env[i].Value); ok && len(found) > 0 {
			c.CA = sidecar.Env[i].Value
		}
	}
	return c
}
