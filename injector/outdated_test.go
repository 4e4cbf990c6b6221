package injector

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A mirror of a registry may rename an image that is named by its digest, since
// that says what is in it; an authority may be on its way out.
func TestBelieved(t *testing.T) {
	f := func(c Config, change func(*corev1.Pod, *Config), want Reason) {
		t.Helper()
		pod := injectedPod(t, c)
		change(pod, &c)
		if a := consider(pod, enrolled(), c); a.verdict.Reason != want || len(a.patch) > 0 {
			t.Errorf("the answer is %+v", a)
		}
	}
	rename := func(image string) func(*corev1.Pod, *Config) {
		return func(p *corev1.Pod, _ *Config) { container(p, SidecarName).Image = image }
	}
	tagged := hooked()
	tagged.Image = "registry.example/code-sandbox:1"
	f(hooked(), rename("mirror.example/x/code-sandbox@sha256:0000"), AlreadyInjected)
	f(hooked(), rename("mirror.example/x/code-sandbox:1@sha256:0000"), AlreadyInjected)
	f(hooked(), rename("mirror.example/x/code-sandbox@sha256:1111"), ForeignSidecar)
	f(tagged, rename("mirror.example/x/code-sandbox:1"), ForeignSidecar)
	// A mirror renames the agents' images, too.
	f(tagged, func(p *corev1.Pod, _ *Config) { container(p, recordPrefix+"0").Image = "mirror.example/a" }, AlreadyInjected)
	// Another replica has a newer bundle, or an older one whose authority is over.
	next := "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n"
	f(hooked(), func(_ *corev1.Pod, c *Config) { c.CA += next }, AlreadyInjected)
	f(hooked(), func(_ *corev1.Pod, c *Config) { c.CA = next }, ForeignSidecar)
}

// Pods of another day are told apart from those that are another's.
func TestOutdated(t *testing.T) {
	f := func(change func(*corev1.Pod, *corev1.Namespace, *Config), want Reason) {
		t.Helper()
		c, ns := hooked(), enrolled()
		c.Image = "registry.example:5000/code-sandbox:1"
		pod := injectedPod(t, c)
		pod.Status.Phase = corev1.PodRunning
		change(pod, ns, &c)
		if v := lacking(pod, ns, c); v.Reason != want {
			t.Errorf("the audit says %v", v)
		}
	}
	f(func(*corev1.Pod, *corev1.Namespace, *Config) {}, "")
	// An upgrade of the product, by tag and by digest; its sidecar reads other variables.
	f(func(_ *corev1.Pod, _ *corev1.Namespace, c *Config) { c.Image = "registry.example:5000/code-sandbox:2" }, Outdated)
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		c.Image = "registry.example:5000/code-sandbox@sha256:2222"
		container(p, SidecarName).Env = container(p, SidecarName).Env[:7]
	}, Outdated)
	// The namespace has another policy since, or one that cannot be.
	f(func(_ *corev1.Pod, ns *corev1.Namespace, _ *Config) {
		ns.Annotations = map[string]string{Prefix + keyTools: "audit"}
	}, Outdated)
	f(func(_ *corev1.Pod, ns *corev1.Namespace, _ *Config) {
		ns.Annotations = map[string]string{Prefix + keyTools: "?"}
	}, Outdated)
	f(func(p *corev1.Pod, _ *corev1.Namespace, _ *Config) { p.Annotations[Prefix+keyTools] = "audit" }, Outdated)
	// Somebody says no when it is too late: it has its sidecar.
	f(func(p *corev1.Pod, _ *corev1.Namespace, _ *Config) { p.Annotations[KeyInject] = "false" }, "")
	// A setting was changed: where the image comes from, when it is pulled, the user, the hook.
	f(func(_ *corev1.Pod, _ *corev1.Namespace, c *Config) { c.Image = "registry.example:5000/other:1" }, Outdated)
	f(func(_ *corev1.Pod, _ *corev1.Namespace, c *Config) { c.PullPolicy = corev1.PullNever }, Outdated)
	f(func(_ *corev1.Pod, _ *corev1.Namespace, c *Config) { c.UID = 65532 }, Outdated)
	f(func(_ *corev1.Pod, _ *corev1.Namespace, c *Config) { c.Hook = false }, Outdated)
	f(func(_ *corev1.Pod, _ *corev1.Namespace, c *Config) {
		c.UID, c.Hook, c.CA = 65532, false, string(ca("B"))
	}, Outdated)
	// The authority was replaced; by no more than that it looks as always.
	f(func(_ *corev1.Pod, _ *corev1.Namespace, c *Config) { c.CA = string(ca("B")) }, Outdated)
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		c.CA = string(ca("B"))
		set("CODE_SANDBOX_POOL", "evil.example:1")(container(p, SidecarName))
	}, ForeignSidecar)
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		c.CA = string(ca("B"))
		set(poolCA, "no certificate")(container(p, SidecarName))
	}, ForeignSidecar)
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		c.UID = 65532
		container(p, HookName).SecurityContext.RunAsUser = new(int64(7))
	}, ForeignSidecar)
	// Another version has other commands, mounts and probes, and other settings in its policy.
	next := func(p *corev1.Pod, c *Config) {
		c.Image = "registry.example:5000/code-sandbox:2"
		s := container(p, SidecarName)
		s.Command, s.VolumeMounts, s.StartupProbe = []string{"/usr/local/bin/control", "sidecar"}, s.VolumeMounts[1:], nil
		p.Annotations[KeyPolicy] = `{"tools":"enforce","x":"y"}`
	}
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) { next(p, c) }, Outdated)
	// But the image of its annotation, in each of its containers, no rights, no reader of the token, and a policy.
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		next(p, c)
		container(p, SidecarName).Image = c.Image
	}, ForeignSidecar)
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		next(p, c)
		container(p, HookName).Image = "evil"
	}, ForeignSidecar)
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		next(p, c)
		container(p, SidecarName).SecurityContext.Privileged = new(true)
	}, ForeignSidecar)
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		next(p, c)
		mount(TokenVolume, "/t")(container(p, "main"))
	}, ForeignSidecar)
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		next(p, c)
		p.Annotations[KeyPolicy] = "yes"
	}, ForeignSidecar)
	// Somebody has given it another image since; the annotation cannot be changed.
	f(func(p *corev1.Pod, _ *corev1.Namespace, _ *Config) {
		container(p, SidecarName).Image = "registry.example:5000/code-sandbox:0"
	}, ForeignSidecar)
	// A policy that never was: its words cannot be, or the sidecar was told others.
	f(func(p *corev1.Pod, _ *corev1.Namespace, _ *Config) { p.Annotations[KeyPolicy] = `{"tools":"never"}` }, ForeignSidecar)
	f(func(p *corev1.Pod, _ *corev1.Namespace, _ *Config) { p.Annotations[KeyPolicy] = `{"tools":"audit"}` }, ForeignSidecar)
	f(func(p *corev1.Pod, _ *corev1.Namespace, _ *Config) {
		p.Annotations[KeyPolicy] = `{"tools":"enforce","x":"y"}`
	}, ForeignSidecar)
	// One that has ended is of no interest.
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		c.Image, p.Status.Phase = "other", corev1.PodFailed
	}, "")
	f(func(p *corev1.Pod, _ *corev1.Namespace, c *Config) {
		c.Image, p.DeletionTimestamp = "other", &metav1.Time{}
	}, "")
}

// Without the hook an agent may have something of its own at the hook's place, or a
// policy that its sidecar is not told of: neither is another's once the hook is on.
func TestOutdatedWithoutHook(t *testing.T) {
	for _, pod := range []*corev1.Pod{
		agent(`containers: [{name: main, image: a, volumeMounts: [{name: x, mountPath: /code-sandbox}]}]`),
		agent(plain, Prefix+keyTools, "off", Prefix+"tool-timeout", "17"),
	} {
		a := consider(pod, enrolled(), testConfig())
		pod = apply(t, pod, a.patch)
		pod.Status.Phase = corev1.PodRunning
		if v := lacking(pod, enrolled(), testConfig()); v.Reason != "" {
			t.Errorf("the audit says %v", v)
		}
		if v := lacking(pod, enrolled(), hooked()); v.Reason != Outdated {
			t.Errorf("with the hook the audit says %v", v)
		}
		if a := consider(pod, enrolled(), hooked()); a.result != denied || a.verdict.Reason == "" {
			t.Errorf("it is %s: %v", a.result, a.verdict)
		}
	}
}
