package injector

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// hooked is a cluster's configuration with the hook.
func hooked() Config {
	c := testConfig()
	c.Hook = true
	return c
}

// readPod reads testdata/NAME.yaml.
func readPod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(raw, &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}

// injectedPod is a plain agent as it is admitted, with annotations.
func injectedPod(t *testing.T, c Config, annotations ...string) *corev1.Pod {
	t.Helper()
	pod := agent(plain, annotations...)
	a := consider(pod, enrolled(), c)
	if a.result != injected {
		t.Fatalf("it is %s: %v", a.result, a.verdict)
	}
	return apply(t, pod, a.patch)
}

// platform is another webhook that adds to every container, and what the API
// server itself fills in between two rounds.
func platform(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Labels = map[string]string{"platform": "yes"}
	pod.Annotations["platform.example/seen"] = "yes"
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "platform", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	for i := range pod.Spec.Volumes {
		if p := pod.Spec.Volumes[i].Projected; p != nil {
			p.DefaultMode = new(int32(420))
		}
	}
	first := corev1.Container{Name: "platform-init", Image: "platform"}
	pod.Spec.InitContainers = append([]corev1.Container{first}, pod.Spec.InitContainers...)
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			fillIn(&list[i])
		}
	}
	return pod
}

func fillIn(c *corev1.Container) {
	c.Env = append([]corev1.EnvVar{{Name: "CLUSTER", Value: "a"}}, c.Env...)
	c.Env = append(c.Env, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://proxy.example"})
	c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "platform"}}})
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "platform", MountPath: "/var/run/platform"})
	c.ImagePullPolicy, c.TerminationMessagePath = corev1.PullAlways, corev1.TerminationMessagePathDefault
	if c.Resources.Limits == nil {
		c.Resources.Limits = corev1.ResourceList{}
	}
	c.Resources.Limits[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
	c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("96Mi")
	for i := range c.VolumeMounts {
		c.VolumeMounts[i].MountPropagation, c.VolumeMounts[i].RecursiveReadOnly = new(corev1.MountPropagationNone), new(corev1.RecursiveReadOnlyDisabled)
	}
	meshed(c.StartupProbe, "/app-health/"+c.Name+"/startupz")
	meshed(c.ReadinessProbe, "/app-health/"+c.Name+"/readyz")
	meshed(c.LivenessProbe, "/app-health/"+c.Name+"/livez")
	if s := c.SecurityContext; s != nil {
		s.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c1,c2"}
		s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
		s.ProcMount = new(corev1.DefaultProcMount)
		s.Capabilities.Drop = append(s.Capabilities.Drop, "NET_RAW")
	}
}

// meshed is a probe that Istio's proxy is asked instead of the container.
func meshed(p *corev1.Probe, path string) {
	if p != nil && p.HTTPGet != nil {
		p.HTTPGet.Path, p.HTTPGet.Port = path, intstr.FromInt32(15020)
	}
}

// Whatever we inject is believed when the API server asks again, after others
// have added to every container and the defaults are filled in.
func TestReinvocationAfterAPlatform(t *testing.T) {
	for _, name := range []string{"bare", "deployment", "guaranteed", "hook", "hook-said", "hook-one", "hook-off", "own-variables"} {
		for _, c := range []Config{testConfig(), hooked()} {
			pod := readPod(t, name)
			once := platform(apply(t, pod, consider(pod, enrolled(), c).patch))
			again := consider(once, enrolled(), c)
			if again.verdict.Reason != AlreadyInjected || len(again.patch) > 0 {
				t.Errorf("%s: asked again, the answer is %+v", name, again)
			}
			once.Status.Phase = corev1.PodRunning
			if v := lacking(once, enrolled(), c); v.Reason != "" {
				t.Errorf("%s: the audit says %v", name, v)
			}
		}
	}
}

// A probe of ours that Istio's proxy is asked instead is one that we made: the pod
// must have the one that waits for the hook.
func TestReinvocationAfterAMesh(t *testing.T) {
	pod := injectedPod(t, hooked(), Prefix+keyRequireHook, "true")
	before := container(pod, SidecarName).ReadinessProbe
	if before == nil || before.HTTPGet.Path != "/readyz" {
		t.Fatalf("the probe is %v", before)
	}
	pod = platform(pod)
	if p := container(pod, SidecarName).ReadinessProbe.HTTPGet; p.Path != "/app-health/code-sandbox-sidecar/readyz" || p.Port.IntVal != 15020 {
		t.Fatalf("the mesh asks %v", p)
	}
	if a := consider(pod, enrolled(), hooked()); a.verdict.Reason != AlreadyInjected {
		t.Errorf("asked again, the answer is %+v", a)
	}
}

// container is a pod's, of any kind.
func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	panic("there is no container " + name)
}

// forged holds a pod that was injected and then changed against both who judge:
// the admission refuses it, and the audit tells of it.
func forged(t *testing.T, c Config, change func(*corev1.Pod), says string) {
	t.Helper()
	pod := injectedPod(t, c, Prefix+keyRequireHook, "true")
	change(pod)
	a := consider(pod, enrolled(), c)
	if a.result != denied || a.verdict.Reason != ForeignSidecar || !strings.Contains(a.verdict.Message, says) {
		t.Errorf("it is %s: %v", a.result, a.verdict)
	}
	pod.Status.Phase = corev1.PodRunning
	if v := lacking(pod, enrolled(), c); v.Reason != ForeignSidecar {
		t.Errorf("the audit says %v", v)
	}
}

// changed is what changes a container of a pod.
func changed(name string, change func(*corev1.Container)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { change(container(pod, name)) }
}

func set(name, value string) func(*corev1.Container) {
	return func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value}) }
}

func mount(volume, path string) func(*corev1.Container) {
	return func(c *corev1.Container) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path})
	}
}

// A pod that says it was injected is refused when anything that matters is not
// as we make it, whatever cannotInject is.
func TestForged(t *testing.T) {
	f := func(change func(*corev1.Pod), says string) {
		t.Helper()
		forged(t, hooked(), change, says)
	}
	// What it says of itself.
	f(func(p *corev1.Pod) { p.Annotations[KeyInjected] = "yes" }, `its annotation code-sandbox.dev/injected is "yes"`)
	f(func(p *corev1.Pod) { p.Annotations[KeyPolicy] = `{"tools":"audit"}` }, `not the policy in force, {"require-hook":"true","tools":"enforce"}`)
	f(func(p *corev1.Pod) { p.Annotations[KeyPolicy] = `nonsense` }, "not the policy in force")
	// The volumes.
	f(func(p *corev1.Pod) {
		named(p.Spec.Volumes, TokenVolume).Projected.Sources[0].ServiceAccountToken.Audience = "x"
	}, `its volume "code-sandbox-token"`)
	f(func(p *corev1.Pod) {
		named(p.Spec.Volumes, HookVolume).VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}
	}, `its volume "code-sandbox-hook"`)
	f(func(p *corev1.Pod) { p.Spec.Volumes = nil }, `its volume "code-sandbox-token" is another or is missing`)
	// The hook is not there, or is hidden from the agent, or another's container has what is ours.
	f(func(p *corev1.Pod) {
		p.Spec.InitContainers = slices.DeleteFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == HookName })
	}, `it has no container "code-sandbox-hook"`)
	f(changed("main", func(c *corev1.Container) { c.VolumeMounts[0].SubPath = "empty" }), `mounts the volume "code-sandbox-hook", which is not for it`)
	f(changed("main", func(c *corev1.Container) { c.VolumeMounts[0].ReadOnly = false }), `mounts the volume "code-sandbox-hook", which is not for it`)
	f(changed("main", mount("x", hookPath+"/")), `mounts the volume "x" at "/code-sandbox/py/", where the tool-call hook is`)
	f(changed("main", mount(TokenVolume, "/t")), `mounts the volume "code-sandbox-token"`)
	f(func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: recordPrefix + "9"})
	}, "of its own")
	// It carries a sidecar where there can be none.
	f(func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "its node's network")
	// More than is wanted: the policy is off, and a hook comes along.
	off := hooked()
	forged(t, off, func(p *corev1.Pod) {
		p.Annotations[Prefix+keyTools] = "off"
		p.Annotations[KeyPolicy] = `{"require-hook":"true","tools":"off"}`
	}, `its volume "code-sandbox-hook"`)
}

// The programs of ours, each in its container.
func TestForgedProgram(t *testing.T) {
	for _, name := range []string{SidecarName, HookName} {
		f := func(change func(*corev1.Container), says string) {
			t.Helper()
			forged(t, hooked(), changed(name, change), says)
		}
		f(func(c *corev1.Container) { c.Image = "evil.example/code-sandbox@sha256:1111" }, "has the image evil.example/code-sandbox@sha256:1111")
		f(func(c *corev1.Container) { c.Image = "registry.example/code-sandbox" }, "has the image")
		f(func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullNever }, "another pull policy")
		f(func(c *corev1.Container) { c.Command = []string{"/bin/sleep"} }, "another command")
		f(func(c *corev1.Container) { c.Args = []string{"--listen=0.0.0.0:8900"} }, "another command")
		f(func(c *corev1.Container) { c.SecurityContext = nil }, "another security context")
		f(func(c *corev1.Container) { c.SecurityContext.RunAsUser = new(int64(0)) }, "another security context")
		f(func(c *corev1.Container) { c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"} }, "another security context")
		f(func(c *corev1.Container) { c.SecurityContext.Capabilities.Drop = nil }, "another security context")
		f(func(c *corev1.Container) {
			c.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}, "another security context")
		f(func(c *corev1.Container) { c.VolumeMounts = c.VolumeMounts[1:] }, "no mount of ours")
		f(mount("x", "/usr/local/bin/sidecar"), "a mount of the volume x at /usr/local/bin/sidecar")
		f(mount("x", tokenFolder+"/token"), "a mount of the volume x")
		f(mount(TokenVolume, "/elsewhere"), "a mount of the volume code-sandbox-token")
		f(func(c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/usr/local/bin/control"}}}}
		}, "another lifecycle or probe")
		f(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{} }, "another lifecycle or probe")
		f(func(c *corev1.Container) { c.TerminationMessagePath = "/usr/local/bin/sidecar" }, "another path for its last words")
		f(set("CODE_SANDBOX_ANYTHING", "x"), "another value of the variable CODE_SANDBOX_ANYTHING")
	}
}

// What the sidecar alone has, and the steps of the agents' images, which write
// into the hook's volume.
func TestForgedSidecar(t *testing.T) {
	f := func(name string, change func(*corev1.Container), says string) {
		t.Helper()
		forged(t, hooked(), changed(name, change), says)
	}
	// What the sidecar is told; of two variables of a name the last counts.
	f(SidecarName, set("CODE_SANDBOX_POOL", "evil.example:1"), "another value of the variable CODE_SANDBOX_POOL")
	f(SidecarName, set("CODE_SANDBOX_TOOLS", "off"), "another value of the variable CODE_SANDBOX_TOOLS")
	f(SidecarName, set("CODE_SANDBOX_POOL_NAME", "evil.example"), "another value of the variable CODE_SANDBOX_POOL_NAME")
	f(SidecarName, set("CODE_SANDBOX_POOL_CA", ""), "variable CODE_SANDBOX_POOL_CA")
	f(SidecarName, set("CODE_SANDBOX_POOL_CA", testConfig().CA+"x"), "variable CODE_SANDBOX_POOL_CA")
	f(SidecarName, func(c *corev1.Container) { c.Env = nil }, "another value of the variable CODE_SANDBOX_POOL")
	f(SidecarName, func(c *corev1.Container) { c.RestartPolicy = nil }, "another restart policy")
	f(SidecarName, func(c *corev1.Container) { c.Ports = nil }, "other ports")
	f(SidecarName, func(c *corev1.Container) { c.Ports[0].HostPort = 8902 }, "other ports")
	f(SidecarName, func(c *corev1.Container) { c.ReadinessProbe = nil }, "another lifecycle or probe")
	f(SidecarName, func(c *corev1.Container) { c.ReadinessProbe.HTTPGet.Path = "/healthz" }, "another lifecycle or probe")
	f(SidecarName, func(c *corev1.Container) { c.ReadinessProbe.HTTPGet.Host = "evil.example" }, "another lifecycle or probe")
	// A probe that a mesh has taken over is of this container, and as often.
	f(SidecarName, func(c *corev1.Container) { meshed(c.ReadinessProbe, "/app-health/main/readyz") }, "another lifecycle or probe")
	f(SidecarName, func(c *corev1.Container) { meshed(c.ReadinessProbe, "/app-health/"+SidecarName+"/livez") }, "another lifecycle or probe")
	f(SidecarName, func(c *corev1.Container) {
		meshed(c.ReadinessProbe, "/app-health/"+SidecarName+"/readyz")
		c.ReadinessProbe.PeriodSeconds = 3600
	}, "another lifecycle or probe")
	// The steps of the agents' images write into the hook's volume.
	f(recordPrefix+"0", func(c *corev1.Container) { c.Command[2] = hookPath }, "another command")
	f(recordPrefix+"0", func(c *corev1.Container) { c.SecurityContext = nil }, "another security context")
}

// The way out is told: each thing of ours by its name.
func TestForgedIsToldWhatToRemove(t *testing.T) {
	pod := injectedPod(t, hooked())
	container(pod, SidecarName).Image = "evil"
	want := "remove the annotation code-sandbox.dev/injected, the annotation code-sandbox.dev/policy, " +
		`the container "code-sandbox-hook", the container "code-sandbox-image-0", the container "code-sandbox-sidecar", ` +
		`the volume "code-sandbox-token" and its mounts, the volume "code-sandbox-hook" and its mounts from it`
	if a := consider(pod, enrolled(), hooked()); !strings.Contains(a.verdict.Message, want) {
		t.Error(a.verdict.Message)
	}
}

// A pod that is let in without a sidecar must not look as if it had one: the pool
// reads its annotations.
func TestSkippedPodsCarryNothingOfOurs(t *testing.T) {
	f := func(pod *corev1.Pod, want Reason) {
		t.Helper()
		if a := consider(pod, enrolled(), hooked()); a.verdict.Reason != want {
			t.Errorf("it is %s: %v", a.result, a.verdict)
		}
		if v := lacking(pod, enrolled(), hooked()); v.Reason != want {
			t.Errorf("the audit says %v", v)
		}
	}
	f(agent(plain, KeyInject, "false"), OptedOut)
	f(agent(plain, KeyInject, "false", KeyPolicy, `{"grants":"*=10.0.0.1"}`), ForeignSidecar)
	f(agent(plain+"\nhostNetwork: true", KeyInjected, "x"), ForeignSidecar)
	// Names of ours without a word of having been injected are the author's own.
	f(agent(`{containers: [{name: main}], initContainers: [{name: code-sandbox-sidecar}]}`), NameTaken)
	f(agent(`{containers: [{name: main}], initContainers: [{name: code-sandbox-sidecar}]}`, KeyPolicy, "{}"), ForeignSidecar)
	f(agent(`{containers: [{name: main}], initContainers: [{name: code-sandbox-hook}]}`, KeyInjected, "x"), ForeignSidecar)
	f(agent(`containers: [{name: code-sandbox-sidecar}]`, KeyInjected, "x"), ForeignSidecar)
	// A mount over the hook, before there is one.
	f(agent(`containers: [{name: main, volumeMounts: [{name: x, mountPath: /code-sandbox/py}]}]`), NameTaken)
}
