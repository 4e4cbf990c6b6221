package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tampered compares a pod as the API server has it with the pod that was asked
// for, and says what is different: a container, volume, variable, right or
// account that admission added, an image it replaced. Nothing is different when
// the list is empty.
//
// It fails closed: whatever stands in the pod and was not asked for is told,
// unless harmless says that the API server always adds it, or that it decides
// over nothing but where and when the pod runs.
func tampered(asked, got *corev1.Pod) []string {
	var c comparison
	for key, value := range asked.Labels {
		if got.Labels[key] != value {
			c.tell("metadata.labels[%s] was changed", key)
		}
	}
	for key := range got.Annotations {
		if _, ours := asked.Annotations[key]; !ours && isObeyed(key) {
			c.tell("metadata.annotations[%s] was added", key)
		}
	}
	for key, value := range asked.Annotations {
		if got.Annotations[key] != value {
			c.tell("metadata.annotations[%s] was changed", key)
		}
	}
	for _, name := range got.Finalizers {
		c.tell("metadata.finalizers[%s] was added", name)
	}
	for _, owner := range got.OwnerReferences {
		if !slices.ContainsFunc(asked.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
			c.tell("metadata.ownerReferences[%s] was added", owner.Name)
		}
	}
	c.compare("spec", tree(asked.Spec), tree(got.Spec))
	slices.Sort(c.found)
	return c.found
}

// obeyed are begins of annotations that a node's programs obey: they add networks
// and devices, or change what stands around a container.
var obeyed = []string{
	"v1.multus-cni.io/", "cdi.k8s.io/", "container.apparmor.security.beta.kubernetes.io/",
	"io.kubernetes.cri-o.", "dev.gvisor.", "io.katacontainers.",
}

func isObeyed(key string) bool {
	return key == "k8s.v1.cni.cncf.io/networks" || slices.ContainsFunc(obeyed, func(begin string) bool { return strings.HasPrefix(key, begin) })
}

// tree is the value as JSON has it: empty fields are not there.
func tree(spec corev1.PodSpec) any {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic("BUG: a pod's spec is not JSON: " + err.Error())
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic("BUG: a pod's spec is not JSON: " + err.Error())
	}
	return v
}

type comparison struct{ found []string }

func (c *comparison) tell(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *comparison) compare(path string, asked, got any) {
	switch a := asked.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			c.fields(path, a, g)
			return
		}
	case []any:
		if g, ok := got.([]any); ok {
			c.fields(path, elements(a), elements(g))
			return
		}
	}
	if !reflect.DeepEqual(asked, got) {
		c.tell("%s was changed", path)
	}
}

func (c *comparison) fields(path string, asked, got map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(got)) {
		at := join(path, key)
		was, there := asked[key]
		switch {
		case placement[at]:
		case pullsAlways(at, got[key]):
		case there:
			c.compare(at, was, got[key])
		case !harmless(at, got[key]):
			c.tell("%s was added", at)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		at := join(path, key)
		if _, there := got[key]; !there && !placement[at] {
			c.tell("%s was removed", at)
		}
	}
}

func join(path, key string) string {
	if strings.HasPrefix(key, "[") {
		return path + key
	}
	return path + "." + key
}

// elements is a list as a map: by the key that Kubernetes merges such lists by,
// else by position.
func elements(list []any) map[string]any {
	m := make(map[string]any, len(list))
	for i, e := range list {
		key := fmt.Sprintf("[%d]", i)
		if fields, ok := e.(map[string]any); ok {
			for _, name := range []string{"mountPath", "name"} {
				if s, ok := fields[name].(string); ok {
					key = "[" + s + "]"
					break
				}
			}
		}
		if _, twice := m[key]; twice {
			key += fmt.Sprintf("[%d]", i)
		}
		m[key] = e
	}
	return m
}

// placement are the fields that decide where and when a pod runs and over
// nothing inside it: a cluster's own admission may set them.
var placement = map[string]bool{
	"spec.nodeName": true, "spec.nodeSelector": true, "spec.affinity": true, "spec.tolerations": true,
	"spec.topologySpreadConstraints": true, "spec.schedulerName": true, "spec.schedulingGates": true,
	"spec.priority": true, "spec.priorityClassName": true, "spec.preemptionPolicy": true, "spec.overhead": true,
}

// pullsAlways says that a container's image is pulled at each start, as the
// admission plugin AlwaysPullImages has it of every pod: the same image by the
// same digest, of which the node asks the registry whether the pod may have it.
func pullsAlways(path string, value any) bool {
	container := strings.HasPrefix(path, "spec.containers[") || strings.HasPrefix(path, "spec.initContainers[")
	return container && strings.HasSuffix(path, "].imagePullPolicy") && value == string(corev1.PullAlways)
}

// harmless says whether a field that was not asked for has the value that the
// API server gives every pod.
func harmless(path string, value any) bool {
	switch path {
	case "spec.serviceAccount": // the old name of serviceAccountName, which is compared
		return true
	case "spec.hostUsers":
		return value == true // some clusters write the default down
	}
	if strings.HasPrefix(path, "spec.containers[") || strings.HasPrefix(path, "spec.initContainers[") {
		return path[strings.LastIndex(path, "].")+1:] == ".terminationMessagePath" && value == corev1.TerminationMessagePathDefault
	}
	return false
}
