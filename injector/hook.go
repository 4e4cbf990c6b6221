package injector

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// hookFolder is where the agent's containers find what we give them.
	hookFolder = "/code-sandbox"
	// hookPath is the hook's part of a PYTHONPATH.
	hookPath = hookFolder + "/py"
)

// Variables that only the hook reads. Both tell it what a PYTHONPATH was before
// ours took its place; the hook puts it back behind its own when Python starts.
const (
	// movedPath has the value, where only the kubelet knows it.
	movedPath = "CODE_SANDBOX_PYTHONPATH"
	// imagePath is the folder of what the image sets.
	imagePath = "CODE_SANDBOX_IMAGE_ENV"
)

// containerName tells the pool which container of the pod a copy is of.
const containerName = "CODE_SANDBOX_CONTAINER"

// hookMount is how an agent's container has the hook.
var hookMount = corev1.VolumeMount{Name: HookVolume, MountPath: hookFolder, ReadOnly: true}

func hookVolume() corev1.Volume {
	return corev1.Volume{Name: HookVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("32Mi"))}}}
}

// hookContainer lays the hook's files out before anything of the agent runs.
func hookContainer(pod *corev1.Pod, c Config) corev1.Container {
	hook := stepContainer(pod, c, HookName, "/usr/local/bin/control", "hook", hookFolder)
	hook.Image, hook.ImagePullPolicy = c.Image, c.PullPolicy
	return hook
}

// stepContainer is one of our steps before the agent: it may write what the
// agent's containers find, and do nothing else.
func stepContainer(pod *corev1.Pod, c Config, name string, command ...string) corev1.Container {
	return corev1.Container{
		Name: name, Command: command, Resources: ownResources(pod, c),
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
			m.insert(fmt.Sprintf("/spec/containers/%d/volumeMounts", i), len(c.VolumeMounts) == 0, "-", hookMount)
		}
		m.pythonPath(i)
		m.env(i, "CODE_SANDBOX_URL", "http://127.0.0.1:"+strconv.Itoa(apiPort))
		m.env(i, "CODE_SANDBOX_TOKEN", "") // the pod's network is its own
		m.env(i, containerName, c.Name)
		for _, v := range policy.environment(forHook) {
			m.set(i, v)
		}
	}
}

// pythonPath puts the hook first on a container's PYTHONPATH. We never make an
// empty segment: it would name the working directory.
func (m *patch) pythonPath(container int) {
	env := m.pod.Spec.Containers[container].Env
	i := last(env, "PYTHONPATH")
	said, known := m.pod.Annotations[KeyPythonPath]
	value, folder, moved := "", "", corev1.EnvVar{Name: movedPath}
	switch {
	case i < 0 && known:
		value = joinPath(said)
	case i < 0:
		// A variable in a pod takes the place of the image's, which nobody sees
		// at admission: a step of the same image writes it down.
		value, folder = hookPath, m.record(container)
	case env[i].ValueFrom != nil:
		value, moved.ValueFrom = hookPath, env[i].ValueFrom.DeepCopy()
	case env[i].Value == hookPath:
		value = hookPath
		folder, moved.ValueFrom = m.earlier(env)
	case strings.HasPrefix(env[i].Value, hookPath+":"):
		value = env[i].Value
	default:
		value = joinPath(env[i].Value)
	}
	m.env(container, "PYTHONPATH", value)
	m.env(container, imagePath, folder)
	m.set(container, moved)
}

// earlier is where a PYTHONPATH is that ours alone took the place of when we
// were asked before.
func (m *patch) earlier(env []corev1.EnvVar) (folder string, from *corev1.EnvVarSource) {
	if i := last(env, movedPath); i >= 0 && env[i].ValueFrom != nil {
		return "", env[i].ValueFrom
	}
	i := last(env, imagePath)
	if i < 0 || env[i].ValueFrom != nil {
		return "", nil
	}
	number, ok := strings.CutPrefix(env[i].Value, recordedFolder(""))
	if !ok || !hasContainer(m.pod.Spec.InitContainers, recordPrefix+number) {
		return "", nil
	}
	return env[i].Value, nil
}

func joinPath(rest string) string {
	if rest == "" {
		return hookPath
	}
	return hookPath + ":" + rest
}
