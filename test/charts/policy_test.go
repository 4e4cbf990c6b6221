package charts

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

// What the pool really makes is let in, sandboxes and copies; it may delete them,
// and nobody else may make them.
func TestPoolMakesWhatItMakes(t *testing.T) {
	c := newCluster(t)
	for pattern, in := range map[string]string{"pool/kube/testdata/pod-*.yaml": "code-sandbox-runs", "pool/kube/testdata/copy-*.yaml": "agents"} {
		for name, p := range golden(t, pattern) {
			t.Run(name, func(t *testing.T) {
				p.Namespace = in
				c.judges(t, "", request{by: thePool, does: admission.Create, resource: "pods", now: p, in: in})
				c.judges(t, "", request{by: thePool, does: admission.Delete, resource: "pods", before: p, in: in})
				c.judges(t, "", request{by: aKubelet, does: admission.Update, resource: "pods/status", now: p, before: p, in: in})
				c.judges(t, "", request{by: aKubelet, does: admission.Delete, resource: "pods", before: p, in: in})
				c.judges(t, "only the pool of Code Sandbox may make", request{by: somebody, does: admission.Create, resource: "pods", now: p, in: in})
				c.judges(t, "cannot be given another container", request{by: somebody, does: admission.Update, resource: "pods/ephemeralcontainers", now: p, before: p, in: in})
			})
		}
	}
}

// changedPods is how somebody with the pool's token makes a sandbox, and a copy,
// that is less locked up by one thing, and is answered.
func changedPods(t *testing.T) func(says string, change func(*corev1.Pod)) {
	c := newCluster(t)
	sandbox := golden(t, "pool/kube/testdata/pod-*.yaml")["pod-default.yaml"]
	aCopy := golden(t, "pool/kube/testdata/copy-*.yaml")["copy-default.yaml"]
	return func(says string, change func(*corev1.Pod)) {
		t.Helper()
		for in, p := range map[string]*corev1.Pod{"code-sandbox-runs": sandbox.DeepCopy(), "agents": aCopy.DeepCopy()} {
			change(p)
			c.judges(t, says, request{by: thePool, does: admission.Create, resource: "pods", now: p, in: in})
		}
	}
}

func TestPoolMakesNothingElse(t *testing.T) {
	f := changedPods(t)
	// As it is.
	f("", func(*corev1.Pod) {})
	// Other pods than sandboxes.
	const noOther = "and no other pods"
	f(noOther, func(p *corev1.Pod) { p.Labels = nil })
	f(noOther, func(p *corev1.Pod) { p.Labels["code-sandbox.dev/kind"] = "pool" })
	// Its life.
	const once = "runs once, until a deadline, as the account code-sandbox-run and without its token"
	f(once, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways })
	f(once, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil })
	// Its account.
	f(once, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" })
	f(once, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "" })
	f(once, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(true) })
	f(once, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil })
	// Its node.
	const node = "no network, no process, no port and no device of its node"
	f(node, func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	f(node, func(p *corev1.Pod) { p.Spec.HostPID = true })
	f(node, func(p *corev1.Pod) { p.Spec.HostIPC = true })
	f(node, func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} })
	f(node, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].HostPort = 8901 })
	f(node, func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "d", DevicePath: "/dev/d"}}
	})
	// Volumes.
	for _, source := range []corev1.VolumeSource{
		{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}, {Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
		{Projected: &corev1.ProjectedVolumeSource{}}, {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
	} {
		f("no volumes but empty ones and images", func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
		})
	}
}

// The pod's user and profiles.
func TestPoolMakesNoOtherUser(t *testing.T) {
	f := changedPods(t)
	const user = "is not root, and has the profiles"
	f(user, func(p *corev1.Pod) { p.Spec.SecurityContext = nil })
	f(user, func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = new(false) })
	f(user, func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = nil })
	f(user, func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(0)) })
	f(user, func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = nil })
	f(user, func(p *corev1.Pod) { p.Spec.SecurityContext.SeccompProfile = nil })
	f(user, func(p *corev1.Pod) { p.Spec.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined })
	f(user, func(p *corev1.Pod) {
		p.Spec.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	})
	f(user, func(p *corev1.Pod) { p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} })
	f(user, func(p *corev1.Pod) { p.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "n", Value: "v"}} })
	f(user, func(p *corev1.Pod) {
		p.Spec.SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}
	})
}

// changedContainers is the same of each of a copy's containers.
func changedContainers(t *testing.T) func(says string, change func(*corev1.Container)) {
	c := newCluster(t)
	p := golden(t, "pool/kube/testdata/copy-*.yaml")["copy-default.yaml"]
	return func(says string, change func(*corev1.Container)) {
		t.Helper()
		for _, list := range []func(*corev1.Pod) []corev1.Container{
			func(p *corev1.Pod) []corev1.Container { return p.Spec.InitContainers }, func(p *corev1.Pod) []corev1.Container { return p.Spec.Containers },
		} {
			p := p.DeepCopy()
			change(&list(p)[0])
			c.judges(t, says, request{by: thePool, does: admission.Create, resource: "pods", now: p, in: "agents"})
		}
	}
}

func TestPoolMakesNoOtherContainers(t *testing.T) {
	f := changedContainers(t)
	// As they are, and with what they have by default said in words.
	f("", func(*corev1.Container) {})
	f("", func(c *corev1.Container) {
		c.SecurityContext.ProcMount = new(corev1.DefaultProcMount)
		c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	})
	// Who it is.
	const profiles = "no container of a sandbox is root, or has other profiles"
	f(profiles, func(c *corev1.Container) { c.SecurityContext.RunAsNonRoot = new(false) })
	f(profiles, func(c *corev1.Container) { c.SecurityContext.RunAsUser = new(int64(0)) })
	f(profiles, func(c *corev1.Container) {
		c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	})
	f(profiles, func(c *corev1.Container) {
		c.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	})
	f(profiles, func(c *corev1.Container) { c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} })
	f(profiles, func(c *corev1.Container) {
		c.SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}
	})
	f(profiles, func(c *corev1.Container) { c.SecurityContext.ProcMount = new(corev1.UnmaskedProcMount) })
}

// What its containers may, and take.
func TestPoolMakesNoStrongerContainers(t *testing.T) {
	f := changedContainers(t)
	const drops = "drop all capabilities, gain none"
	f(drops, func(c *corev1.Container) { c.SecurityContext = nil })
	f(drops, func(c *corev1.Container) { c.SecurityContext.Privileged = new(true) })
	f(drops, func(c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = new(true) })
	f(drops, func(c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = nil })
	f(drops, func(c *corev1.Container) { c.SecurityContext.ReadOnlyRootFilesystem = nil })
	f(drops, func(c *corev1.Container) { c.SecurityContext.Capabilities = nil })
	f(drops, func(c *corev1.Container) { c.SecurityContext.Capabilities.Drop = []corev1.Capability{"NET_RAW"} })
	f(drops, func(c *corev1.Container) {
		c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
	})
	// Variables and resources.
	const takes = "take no variable from elsewhere, and have limits"
	f(takes, func(c *corev1.Container) {
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	})
	f(takes, func(c *corev1.Container) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"}}})
	})
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage"} {
		f(takes, func(c *corev1.Container) { delete(c.Resources.Limits, name) })
	}
}

// A sandbox is no copy, and a copy no sandbox; a copy is one by both labels.
func TestKindsStayApart(t *testing.T) {
	c := newCluster(t)
	sandbox := golden(t, "pool/kube/testdata/pod-*.yaml")["pod-default.yaml"]
	aCopy := golden(t, "pool/kube/testdata/copy-*.yaml")["copy-default.yaml"]
	f := func(p *corev1.Pod, in string) {
		t.Helper()
		c.judges(t, "and no other pods", request{by: thePool, does: admission.Create, resource: "pods", now: p, in: in})
	}
	f(sandbox, "agents")
	f(aCopy, "code-sandbox-runs")
	unmarked := aCopy.DeepCopy()
	delete(unmarked.Labels, "code-sandbox.dev/copy")
	f(unmarked, "agents")
}

// The pool deletes nothing but its own; of what others delete the policy is not asked.
func TestPoolDeletesItsOwn(t *testing.T) {
	c := newCluster(t)
	f := func(says, by, in string, labels map[string]string) {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: in, Labels: labels}}
		c.judges(t, says, request{by: by, does: admission.Delete, resource: "pods", before: p, in: in})
	}
	kind := func(k string) map[string]string { return map[string]string{"code-sandbox.dev/kind": k} }
	const no = "deletes its sandboxes and its copies of agents, and no other pods"
	// An agent, with labels and without, and what is nobody's.
	f(no, thePool, "agents", nil)
	f(no, thePool, "agents", map[string]string{"app": "agent"})
	f(no, thePool, "agents", kind(""))
	f(no, thePool, "code-sandbox-runs", nil)
	// Its own, and somebody else's deletion of the same.
	f("", thePool, "agents", kind("copy"))
	f("", thePool, "code-sandbox-runs", kind("python"))
	f("", somebody, "agents", nil)
	f("", somebody, "code-sandbox-runs", kind("python"))
}

// Labels and annotations of ours stay what they were, whichever way they come.
func TestContractStays(t *testing.T) {
	c := newCluster(t)
	agents := golden(t, "injector/testdata/*.out.yaml")
	before := agents["hook.out.yaml"]
	before.Labels = map[string]string{"app": "agent"}
	f := func(says string, change func(*corev1.Pod)) {
		t.Helper()
		now := before.DeepCopy()
		change(now)
		for resource, by := range map[string]string{"pods": somebody, "pods/status": aKubelet} {
			c.judges(t, says, request{by: by, does: admission.Update, resource: resource, now: now, before: before, in: "agents"})
		}
	}
	// A status, and labels and annotations of others.
	f("", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	f("", func(p *corev1.Pod) { p.Labels["a"], p.Annotations["a"] = "b", "b" })
	// The policy in force and the rest of the contract: changed, added, taken away.
	const annotations = "are read when a pod is admitted and cannot be changed on it"
	f(annotations, func(p *corev1.Pod) { p.Annotations["code-sandbox.dev/policy"] = `{"tool-memory":"1Ti"}` })
	f(annotations, func(p *corev1.Pod) { p.Annotations["code-sandbox.dev/tools"] = "off" })
	f(annotations, func(p *corev1.Pod) { p.Annotations["code-sandbox.dev/inject"] = "false" })
	f(annotations, func(p *corev1.Pod) { delete(p.Annotations, "code-sandbox.dev/injected") })
	f(annotations, func(p *corev1.Pod) { p.Annotations = nil })
	// A label that would make it the pool's to delete.
	const labels = "labels of code-sandbox.dev/ cannot be changed on a pod"
	f(labels, func(p *corev1.Pod) { p.Labels["code-sandbox.dev/kind"] = "copy" })
	// Of a namespace that is not enrolled only labels are ours.
	now := before.DeepCopy()
	now.Annotations["code-sandbox.dev/tools"] = "off"
	c.judges(t, "", request{by: somebody, does: admission.Update, resource: "pods", now: now, before: before, in: "others"})
	now.Labels["code-sandbox.dev/kind"] = "copy"
	c.judges(t, labels, request{by: aKubelet, does: admission.Update, resource: "pods/status", now: now, before: before, in: "others"})
	// A Binding's are given to the pod.
	for _, resource := range []string{"pods/binding", "bindings"} {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}
		ask := request{by: aScheduler, does: admission.Create, resource: resource, now: b, in: "agents"}
		c.judges(t, "", ask)
		b.Annotations = map[string]string{"scheduler": "x"}
		c.judges(t, "", ask)
		b.Annotations["code-sandbox.dev/policy"] = "{}"
		c.judges(t, "a Binding cannot give a pod", ask)
		b.Annotations, b.Labels = nil, map[string]string{"code-sandbox.dev/kind": "copy"}
		c.judges(t, "a Binding cannot give a pod", ask)
	}
}

// What the injector writes is let in; what somebody writes in its place is not.
func TestInjectorsAnnotations(t *testing.T) {
	c := newCluster(t)
	agents := golden(t, "injector/testdata/*.out.yaml")
	create := func(says string, p *corev1.Pod) {
		t.Helper()
		c.judges(t, says, request{by: somebody, does: admission.Create, resource: "pods", now: p, in: "agents"})
	}
	for _, p := range agents {
		create("", p)
	}
	create("", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"code-sandbox.dev/inject": "false"}}})
	const no = "are the injector's to write"
	for _, key := range []string{"code-sandbox.dev/policy", "code-sandbox.dev/injected"} {
		create(no, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "{}"}}})
		half := agents["hook.out.yaml"].DeepCopy()
		delete(half.Annotations, key)
		create(no, half)
	}
	without := agents["hook.out.yaml"].DeepCopy()
	without.Spec.InitContainers = slices.DeleteFunc(without.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "code-sandbox-sidecar" })
	create(no, without)
}
