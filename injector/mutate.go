package injector

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Op is one operation of a JSON patch.
type Op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Mutate is what makes an injected pod of a pod. What is there already is left
// as it is, so that being asked again changes nothing; another webhook's new
// containers get the hook then.
func Mutate(pod *corev1.Pod, c Config, policy Policy) []Op {
	m := &patch{pod: pod, config: c}
	sidecar := hasContainer(pod.Spec.InitContainers, SidecarName)
	if !sidecar {
		m.volume(tokenVolume(c))
		m.initContainer(sidecarContainer(pod, c, policy))
		m.pullSecrets(c.PullSecrets)
		m.annotate([][2]string{{KeyInjected, c.Image}, {KeyPolicy, policy.String()}})
	}
	if (maker{config: c, policy: policy}).hooks() {
		if !hasContainer(pod.Spec.InitContainers, HookName) {
			m.volume(hookVolume())
			// It comes before the sidecar: both come before the pod's own.
			m.initContainer(hookContainer(pod, c))
		}
		m.hook(policy)
		m.addSteps()
	}
	return m.ops
}

// patch collects operations. A list that the pod has not is made by its first.
type patch struct {
	pod    *corev1.Pod
	config Config
	ops    []Op
	made   map[string]bool
	// steps are those of agents' images, which come behind the hook's own.
	steps []corev1.Container
}

func (m *patch) add(path string, value any) {
	m.ops = append(m.ops, Op{"add", path, value})
}

// insert adds an item to a list, at its start or at its end.
func (m *patch) insert(path string, absent bool, at string, item any) {
	if absent && !m.made[path] {
		if m.made == nil {
			m.made = map[string]bool{}
		}
		m.made[path] = true
		m.add(path, []any{item})
		return
	}
	m.add(path+"/"+at, item)
}

func (m *patch) volume(v corev1.Volume) {
	if !slices.ContainsFunc(m.pod.Spec.Volumes, func(have corev1.Volume) bool { return have.Name == v.Name }) {
		m.insert("/spec/volumes", len(m.pod.Spec.Volumes) == 0, "-", v)
	}
}

func (m *patch) initContainer(c corev1.Container) {
	m.insert("/spec/initContainers", len(m.pod.Spec.InitContainers) == 0, "0", c)
}

func (m *patch) pullSecrets(names []string) {
	for _, name := range names {
		ref := corev1.LocalObjectReference{Name: name}
		if !slices.Contains(m.pod.Spec.ImagePullSecrets, ref) {
			m.insert("/spec/imagePullSecrets", len(m.pod.Spec.ImagePullSecrets) == 0, "-", ref)
		}
	}
}

func (m *patch) annotate(pairs [][2]string) {
	if len(m.pod.Annotations) == 0 {
		all := map[string]string{}
		for _, p := range pairs {
			all[p[0]] = p[1]
		}
		m.add("/metadata/annotations", all)
		return
	}
	for _, p := range pairs {
		m.add("/metadata/annotations/"+strings.ReplaceAll(p[0], "/", "~1"), p[1])
	}
}

func hasContainer(list []corev1.Container, name string) bool {
	return slices.ContainsFunc(list, func(c corev1.Container) bool { return c.Name == name })
}

// env gives a container's variable a value, whatever it was.
func (m *patch) env(container int, name, value string) {
	m.set(container, corev1.EnvVar{Name: name, Value: value})
}

func (m *patch) set(container int, v corev1.EnvVar) {
	c := m.pod.Spec.Containers[container]
	path := fmt.Sprintf("/spec/containers/%d/env", container)
	switch i := last(c.Env, v.Name); {
	case i < 0:
		m.insert(path, len(c.Env) == 0, "-", v)
	case !equality.Semantic.DeepEqual(c.Env[i], v):
		m.ops = append(m.ops, Op{"replace", fmt.Sprintf("%s/%d", path, i), v})
	}
}

// last is the place of the variable that counts: of several with a name, the
// last does. It is below zero when there is none.
func last(env []corev1.EnvVar, name string) int {
	for i, e := range slices.Backward(env) {
		if e.Name == name {
			return i
		}
	}
	return -1
}
