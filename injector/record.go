package injector

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// recordPrefix begins the names of the steps that write down what an agent's
// image sets.
const recordPrefix = "code-sandbox-image-"

// recordedFolder is where the step of that number writes.
func recordedFolder(number string) string { return hookFolder + "/image/" + number }

// record has a container's PYTHONPATH written down, as it is without us, and
// returns the folder. Containers that cannot differ in it share a step.
func (m *patch) record(container int) string {
	of := m.pod.Spec.Containers[container]
	for _, have := range m.steps {
		if have.Image == of.Image && reflect.DeepEqual(have.EnvFrom, of.EnvFrom) {
			return have.Command[2]
		}
	}
	number := 0
	for m.taken(number) {
		number++
	}
	step := recordContainer(m.pod, m.config, strconv.Itoa(number))
	step.Image, step.ImagePullPolicy, step.EnvFrom = of.Image, of.ImagePullPolicy, of.EnvFrom
	m.steps = append(m.steps, step)
	return step.Command[2]
}

// recordContainer is the step of a number, without its image. That may have no
// program but its interpreter: the runner runs in every one. A PYTHONPATH may
// come with envFrom as well; nothing else of it is written.
func recordContainer(pod *corev1.Pod, c Config, number string) corev1.Container {
	return stepContainer(pod, c, recordPrefix+number, hookFolder+"/bin/runner", "record", recordedFolder(number), "PYTHONPATH")
}

func (m *patch) taken(number int) bool {
	name := recordPrefix + strconv.Itoa(number)
	return hasContainer(m.pod.Spec.InitContainers, name) || hasContainer(m.steps, name)
}

// addSteps puts the steps right behind the one that lays their program out.
func (m *patch) addSteps() {
	at := 1
	if i := slices.IndexFunc(m.pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == HookName }); i >= 0 {
		at = i + 1
	}
	for i, step := range m.steps {
		m.add(fmt.Sprintf("/spec/initContainers/%d", at+i), step)
	}
}

// isStep says whether the name is one of ours, for a container that is over
// before the agent starts.
func isStep(name string) bool { return name == HookName || strings.HasPrefix(name, recordPrefix) }
