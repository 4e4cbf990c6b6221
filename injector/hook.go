package injector

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// hookFolder is where the agent's containers find the hook.
const hookFolder = "/opt/code-sandbox/hook"

// pythonPath keeps a PYTHONPATH that comes from elsewhere than the pod.
const pythonPath = "CODE_SANDBOX_PYTHONPATH"

func hookVolume() corev1.Volume {
	return corev1.Volume{Name: HookVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("16Mi"))}}}
}

// hookContainer lays the hook's files out before anything of the agent runs.
func hookContainer(pod *corev1.Pod, c Config) corev1.Container {
	return corev1.Container{
		Name: HookName, Image: c.Image, ImagePullPolicy: c.PullPolicy,
		Command:   []string{"/usr/local/bin/control", "hook", hookFolder},
		Resources: ownResources(pod, c),
		VolumeMounts: []corev1.VolumeMount{
			{Name: HookVolume, MountPath: hookFolder},
			// See tokenFolder: this keeps the service account's token out.
			{Name: HookVolume, MountPath: tokenFolder, ReadOnly: true},
		},
		SecurityContext:          restricted(c.UID),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// hook makes the agent's interpreters load the hook.
func (m *patch) hook(policy Policy) {
	only := split(m.pod.Annotations[KeyContainers])
	for i, c := range m.pod.Spec.Containers {
		if len(only) > 0 && !slices.Contains(only, c.Name) {
			continue
		}
		mounted := slices.ContainsFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.Name == HookVolume })
		if !mounted {
			m.insert(fmt.Sprintf("/spec/containers/%d/volumeMounts", i), len(c.VolumeMounts) == 0, "-",
				corev1.VolumeMount{Name: HookVolume, MountPath: hookFolder, ReadOnly: true})
		}
		m.pythonPath(i)
		m.env(i, "CODE_SANDBOX_URL", "http://127.0.0.1:"+strconv.Itoa(apiPort))
		for _, v := range policy.environment() {
			m.env(i, v[0], v[1])
		}
	}
}

// pythonPath puts the hook first on a container's PYTHONPATH. There is never an
// empty segment: it would name the working directory.
func (m *patch) pythonPath(container int) {
	env := m.pod.Spec.Containers[container].Env
	i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "PYTHONPATH" })
	switch {
	case i < 0:
		m.env(container, "PYTHONPATH", joinPath(m.pod.Annotations[KeyPythonPath]))
	case env[i].ValueFrom != nil:
		// The value is known to the kubelet alone, which can put it together.
		kept := env[i].DeepCopy()
		kept.Name = pythonPath
		m.ops = append(m.ops, Op{"replace", fmt.Sprintf("/spec/containers/%d/env/%d", container, i), kept})
		m.insert(fmt.Sprintf("/spec/containers/%d/env", container), false, "-",
			corev1.EnvVar{Name: "PYTHONPATH", Value: joinPath("$(" + pythonPath + ")")})
	case env[i].Value != hookFolder && !strings.HasPrefix(env[i].Value, hookFolder+":"):
		m.env(container, "PYTHONPATH", joinPath(env[i].Value))
	}
}

func joinPath(rest string) string {
	if rest == "" {
		return hookFolder
	}
	return hookFolder + ":" + rest
}
