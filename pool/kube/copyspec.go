package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/pool"
)

// copyPodFor makes the pod of a copy: that of any other sandbox, but for the
// image, and where it may run. Nothing of the agent's pod is in it that is not a
// field of agent.
func copyPodFor(c PodConfig, a *agent, t pool.Template, id identity) *corev1.Pod {
	c.Namespace, c.PullSecrets = a.namespace, nil
	c.RunnerFrom = RunnerInit // the one way that works for any image
	c.Tolerations = append(slices.Clone(c.Tolerations), a.tolerations...)
	if a.arch != "" {
		c.NodeSelector = merged(c.NodeSelector, map[string]string{corev1.LabelArchStable: a.arch})
	}
	p := podFor(c, t, id)
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: a.pod, UID: a.uid}}
	p.Spec.ImagePullSecrets = slices.Clone(a.pullSecrets)
	p.Spec.Affinity = near(a.node)
	if a.user > 0 {
		p.Spec.SecurityContext.RunAsUser, p.Spec.SecurityContext.RunAsGroup = new(a.user), new(a.group)
	}
	main := &p.Spec.Containers[0]
	main.WorkingDir = "/"
	// The working directory of other sandboxes may be the program's own here.
	main.VolumeMounts = slices.DeleteFunc(main.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/work" })
	return p
}

// near prefers the node that has the image already.
func near(node string) *corev1.Affinity {
	if node == "" {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
		Weight: 100, Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}},
	}}}}
}
