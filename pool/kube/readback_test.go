package kube

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// asServed is the pod as an API server answers it when nobody interferes.
func asServed(asked *corev1.Pod) *corev1.Pod {
	p := asked.DeepCopy()
	p.UID, p.ResourceVersion = "uid-1", "1"
	p.Spec.DeprecatedServiceAccount = p.Spec.ServiceAccountName
	p.Spec.SchedulerName, p.Spec.Priority = corev1.DefaultSchedulerName, new(int32(0))
	p.Spec.PreemptionPolicy = new(corev1.PreemptLowerPriority)
	p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists})
	for _, all := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range all {
			all[i].TerminationMessagePath = corev1.TerminationMessagePathDefault
		}
	}
	return p
}

func TestReadBack(t *testing.T) {
	asked := podFor(testPods().withDefaults(), testTemplate(), testID)
	f := func(change func(*corev1.Pod), want ...string) {
		t.Helper()
		got := asServed(asked)
		change(got)
		if found := tampered(asked, got); !slices.Equal(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
	}
	main := func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
	// Nothing but what the API server always does.
	f(func(*corev1.Pod) {})
	// Where it runs is the cluster's to say.
	f(func(p *corev1.Pod) {
		p.Spec.NodeName, p.Spec.NodeSelector = "node-1", map[string]string{"zone": "a"}
		p.Labels["team"], p.Annotations["seen"] = "x", "yes"
	})
	// What a node's programs obey; what one of them tells of itself is no wish.
	f(func(p *corev1.Pod) {
		p.Annotations["k8s.v1.cni.cncf.io/networks"], p.Annotations["k8s.v1.cni.cncf.io/network-status"] = "other", "[]"
		p.Annotations["cdi.k8s.io/gpu"] = "x"
	}, "metadata.annotations[cdi.k8s.io/gpu] was added", "metadata.annotations[k8s.v1.cni.cncf.io/networks] was added")
	f(func(p *corev1.Pod) {
		for key := range asked.Annotations {
			delete(p.Annotations, key)
		}
	}, lost(asked.Annotations)...)
	// AlwaysPullImages has every image pulled at each start; nothing else of how it
	// is pulled may be changed.
	f(func(p *corev1.Pod) {
		main(p).ImagePullPolicy, p.Spec.InitContainers[0].ImagePullPolicy = corev1.PullAlways, corev1.PullAlways
	})
	f(func(p *corev1.Pod) { main(p).ImagePullPolicy = corev1.PullNever }, "spec.containers[sandbox].imagePullPolicy was changed")
	f(func(p *corev1.Pod) { p.Spec.InitContainers[0].ImagePullPolicy = "" }, "spec.initContainers[install].imagePullPolicy was removed")
	// A sidecar, in either list.
	f(func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy"}) },
		"spec.containers[proxy] was added")
	f(func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "agent"})
	},
		"spec.initContainers[agent] was added")
	f(func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	}, "spec.ephemeralContainers was added")
	// A variable, also one that takes another's place.
	f(func(p *corev1.Pod) {
		main(p).Env = append(main(p).Env, corev1.EnvVar{Name: "AWS_ROLE_ARN", Value: "x"})
	},
		"spec.containers[sandbox].env[AWS_ROLE_ARN] was added")
	f(func(p *corev1.Pod) { main(p).Env[0].Value = "{}" }, "spec.containers[sandbox].env[CODE_SANDBOX_RUNNER].value was changed")
	f(func(p *corev1.Pod) { main(p).EnvFrom = []corev1.EnvFromSource{{Prefix: "X"}} }, "spec.containers[sandbox].envFrom was added")
	// A volume with a token, and its mount.
	f(func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "token"})
		main(p).VolumeMounts = append(main(p).VolumeMounts, corev1.VolumeMount{Name: "token", MountPath: "/var/run/secrets"})
	}, "spec.containers[sandbox].volumeMounts[/var/run/secrets] was added", "spec.volumes[token] was added")
	f(func(p *corev1.Pod) {
		p.Spec.Volumes[0].EmptyDir.SizeLimit = resource.NewQuantity(1<<40, resource.BinarySI)
	},
		"spec.volumes[scratch].emptyDir.sizeLimit was changed")
	// Rights.
	f(func(p *corev1.Pod) { main(p).SecurityContext.Privileged = new(true) }, "spec.containers[sandbox].securityContext.privileged was changed")
	f(func(p *corev1.Pod) { main(p).SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"} },
		"spec.containers[sandbox].securityContext.capabilities.add was added")
	f(func(p *corev1.Pod) { main(p).SecurityContext = nil }, "spec.containers[sandbox].securityContext was removed")
	f(func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(0)) }, "spec.securityContext.runAsUser was changed")
	f(func(p *corev1.Pod) { p.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "x"}} }, "spec.securityContext.sysctls was added")
	// The host's namespaces.
	f(func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.HostIPC = true, true, true },
		"spec.hostIPC was added", "spec.hostNetwork was added", "spec.hostPID was added")
	f(func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = new(true) }, "spec.shareProcessNamespace was changed")
	// Another program.
	f(func(p *corev1.Pod) { main(p).Image = "other" }, "spec.containers[sandbox].image was changed")
	f(func(p *corev1.Pod) { main(p).Command = []string{"sh"} },
		"spec.containers[sandbox].command[0] was changed", "spec.containers[sandbox].command[1] was removed")
	f(func(p *corev1.Pod) { main(p).Args = []string{"--debug"} }, "spec.containers[sandbox].args was added")
	f(func(p *corev1.Pod) { main(p).Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}} },
		"spec.containers[sandbox].lifecycle was added")
	// Another account, or a token of it.
	f(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "admin" }, "spec.serviceAccountName was changed")
	f(func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(true) }, "spec.automountServiceAccountToken was changed")
	f(func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "x"}} }, "spec.imagePullSecrets was added")
	// Bounds that are gone.
	f(func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil }, "spec.activeDeadlineSeconds was removed")
	f(func(p *corev1.Pod) { delete(main(p).Resources.Limits, corev1.ResourceMemory) },
		"spec.containers[sandbox].resources.limits.memory was removed")
	// The labels that NetworkPolicies select by.
	f(func(p *corev1.Pod) { p.Labels[LabelDNS] = "x"; delete(p.Labels, LabelKind) },
		"metadata.labels[code-sandbox.dev/dns] was changed", "metadata.labels[code-sandbox.dev/kind] was changed")
	// What would keep it from going away.
	f(func(p *corev1.Pod) { p.Finalizers = []string{"x/y"} }, "metadata.finalizers[x/y] was added")
	f(func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "x", UID: "z"}} }, "metadata.ownerReferences[x] was added")
}

// lost is what is told of annotations that were taken away.
func lost(annotations map[string]string) []string {
	var told []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		told = append(told, fmt.Sprintf("metadata.annotations[%s] was changed", key))
	}
	return told
}
