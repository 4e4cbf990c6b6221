package injector

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// alters says what of a container of ours is another's, in the words that follow
// "it has". The API server's defaults and what a platform adds to every container
// are not: variables that nobody of us reads, mounts elsewhere, resources, the
// pull policy Always, labels of SELinux.
func (m maker) alters(have, want *corev1.Container) string {
	always := have.ImagePullPolicy == corev1.PullAlways
	switch {
	case !sameImage(have.Image, want.Image):
		return "the image " + clip(have.Image) + " (a registry's mirror is believed by the digest alone: set image.digest, or image.repository to the mirror's)"
	case !sameSecurity(have.SecurityContext, want.SecurityContext):
		return "another security context"
	case m.another:
		return "" // no more is known of it
	case !always && want.ImagePullPolicy != "" && have.ImagePullPolicy != want.ImagePullPolicy:
		return "another pull policy"
	case !slices.Equal(have.Command, want.Command) || !slices.Equal(have.Args, want.Args) || have.WorkingDir != "":
		return "another command"
	case !equality.Semantic.DeepEqual(have.RestartPolicy, want.RestartPolicy) || len(have.RestartPolicyRules) > 0:
		return "another restart policy"
	case !slices.EqualFunc(have.Ports, want.Ports, samePort):
		return "other ports"
	case have.Lifecycle != nil || len(have.VolumeDevices) > 0 || !sameProbes(have, want):
		return "another lifecycle or probe"
	case have.TerminationMessagePath != "" && have.TerminationMessagePath != corev1.TerminationMessagePathDefault:
		return "another path for its last words"
	}
	if name := otherVariable(have.Env, want.Env); name != "" {
		return "another value of the variable " + name
	}
	return otherMount(have.VolumeMounts, want.VolumeMounts, path.Dir(want.Command[0]))
}

// sameImage compares by digest where both have one: what is in the image is the
// same then, wherever it is pulled from.
func sameImage(have, want string) bool {
	_, a, pinned := strings.Cut(have, "@")
	_, b, both := strings.Cut(want, "@")
	return have == want || pinned && both && a == b
}

func samePort(have, want corev1.ContainerPort) bool {
	if have.Protocol == "" {
		have.Protocol = corev1.ProtocolTCP
	}
	return have == want
}

// sameSecurity lets others add what takes rights away, and labels.
func sameSecurity(have, want *corev1.SecurityContext) bool {
	if have == nil {
		return false
	}
	s := have.DeepCopy()
	s.SELinuxOptions, s.WindowsOptions = nil, nil
	if s.AppArmorProfile != nil && s.AppArmorProfile.Type != corev1.AppArmorProfileTypeUnconfined {
		s.AppArmorProfile = nil
	}
	if s.ProcMount != nil && *s.ProcMount == corev1.DefaultProcMount {
		s.ProcMount = nil
	}
	if c := s.Capabilities; c != nil && slices.Contains(c.Drop, "ALL") {
		c.Drop = want.Capabilities.Drop
	}
	return equality.Semantic.DeepEqual(s, want)
}

// sameProbes: no probe runs a program beside ours, and a pod that must not be
// ready before its hook was heard of is asked for that.
func sameProbes(have, want *corev1.Container) bool {
	for _, p := range []*corev1.Probe{have.StartupProbe, have.ReadinessProbe, have.LivenessProbe} {
		if p != nil && p.Exec != nil {
			return false
		}
	}
	return want.ReadinessProbe == nil || equality.Semantic.DeepEqual(unmeshed(have.ReadinessProbe, want), want.ReadinessProbe)
}

// unmeshed is a readiness probe of ours as it was before Istio had its proxy asked
// instead of the container (rewriteAppHTTPProbers): the path names the container,
// and the proxy asks what stood there. Who makes the pod could listen there too,
// and could as well say hello in the hook's name.
func unmeshed(have *corev1.Probe, want *corev1.Container) *corev1.Probe {
	ours := want.ReadinessProbe.HTTPGet
	if have == nil || have.HTTPGet == nil || ours == nil || have.HTTPGet.Path != "/app-health/"+want.Name+"/readyz" {
		return have
	}
	have = have.DeepCopy()
	have.HTTPGet.Path, have.HTTPGet.Port = ours.Path, ours.Port
	return have
}

// otherVariable finds a variable that a program of ours reads and that has not
// the value that we give it. All that they read are given.
func otherVariable(have, want []corev1.EnvVar) string {
	for _, v := range want {
		i := last(have, v.Name)
		if strings.HasPrefix(v.Name, variables) && (i < 0 || !sameVariable(have[i], v)) {
			return v.Name
		}
	}
	for _, v := range have {
		if strings.HasPrefix(v.Name, variables) && last(want, v.Name) < 0 {
			return clip(v.Name)
		}
	}
	return ""
}

// sameVariable compares values. Of our authorities one may have been told only some:
// another replica knew no more of them, or no longer does.
func sameVariable(have, want corev1.EnvVar) bool {
	if want.Name == poolCA && have.ValueFrom == nil && within(have.Value, want.Value) {
		return true
	}
	return equality.Semantic.DeepEqual(have, want)
}

// otherMount finds a mount of ours that is not as we make it, or one that hides
// what is ours: the mounts themselves and the program's folder.
func otherMount(have, want []corev1.VolumeMount, program string) string {
	for _, v := range want {
		if !slices.ContainsFunc(have, func(h corev1.VolumeMount) bool { return sameMount(h, v) }) {
			return "no mount of ours at " + v.MountPath
		}
	}
	for _, h := range have {
		if slices.ContainsFunc(want, func(v corev1.VolumeMount) bool { return sameMount(h, v) }) {
			continue
		}
		hides := overlaps(h.MountPath, program)
		for _, v := range want {
			hides = hides || overlaps(h.MountPath, v.MountPath)
		}
		if hides || h.Name == TokenVolume || h.Name == HookVolume {
			return "a mount of the volume " + clip(h.Name) + " at " + clip(h.MountPath)
		}
	}
	return ""
}

// sameMount compares after the API server's defaults.
func sameMount(have, want corev1.VolumeMount) bool {
	if p := have.MountPropagation; p != nil && *p == corev1.MountPropagationNone {
		have.MountPropagation = nil
	}
	if r := have.RecursiveReadOnly; r != nil && *r == corev1.RecursiveReadOnlyDisabled {
		have.RecursiveReadOnly = nil
	}
	return equality.Semantic.DeepEqual(have, want)
}

// overlaps says whether one of two paths is the other, or in it.
func overlaps(a, b string) bool {
	a, b = path.Clean("/"+a), path.Clean("/"+b)
	in := func(inner, outer string) bool {
		return inner == outer || outer == "/" || strings.HasPrefix(inner, outer+"/")
	}
	return in(a, b) || in(b, a)
}
