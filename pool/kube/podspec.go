package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	containerName = "sandbox"
	installName   = "install"
	runnerVolume  = "runner"
	scratchVolume = "scratch"
	runnerFolder  = "/opt/code-sandbox"
	// imageRunner is where the product's image has the runner.
	imageRunner = "/usr/local/bin/runner"
)

// identity is what tells one sandbox from another.
type identity struct {
	name    string
	replica string
	secret  string // only its hash goes into the pod
}

// podFor makes the pod of a sandbox. It is built from nothing but what stands
// here: no field is ever taken over from another pod.
func podFor(c PodConfig, t pool.Template, id identity) *corev1.Pod {
	deadline := int64(lastBound(c, t) / time.Second)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: id.name, Namespace: c.Namespace, Labels: labelsFor(c, t, id.replica), Annotations: merged(c.Annotations, meshAnnotations),
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64(1)),
			ActiveDeadlineSeconds:         &deadline,
			ServiceAccountName:            c.ServiceAccount,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			ShareProcessNamespace:         new(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(c.User), RunAsGroup: new(c.User),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			NodeSelector:      maps.Clone(c.NodeSelector),
			Tolerations:       c.Tolerations,
			PriorityClassName: c.PriorityClass,
			Containers:        []corev1.Container{mainContainer(c, t, id)},
			Volumes:           []corev1.Volume{scratch(t.Limits)},
		},
	}
	if c.UserNamespace {
		p.Spec.HostUsers = new(false)
	}
	if c.RuntimeClass != "" {
		p.Spec.RuntimeClassName = new(c.RuntimeClass)
	}
	for _, name := range c.PullSecrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	addRunner(&p.Spec, c, t)
	setDNS(&p.Spec, c, t)
	return p
}

// lastBound is the age that no sandbox reaches, whoever has died.
func lastBound(c PodConfig, t pool.Template) time.Duration {
	return c.StartBound + c.Life + t.Limits.MaxRun + c.Grace
}

func labelsFor(c PodConfig, t pool.Template, replica string) map[string]string {
	own := map[string]string{
		"app.kubernetes.io/managed-by": "code-sandbox",
		LabelComponent:                 "sandbox",
		LabelKind:                      KindPython,
		LabelReplica:                   replica,
		LabelTemplate:                  t.Key(),
		LabelDNS:                       t.DNS,
	}
	if t.Copy != nil {
		own[LabelKind], own[LabelCopy] = KindCopy, "true"
	}
	return merged(c.Labels, meshLabels, own)
}

// merged is one map of all; the last that names a key wins.
func merged(all ...map[string]string) map[string]string {
	m := map[string]string{}
	for _, more := range all {
		maps.Copy(m, more)
	}
	return m
}

// runnerConfig is what the runner of one sandbox is told.
func runnerConfig(c PodConfig, t pool.Template, id identity) string {
	sum := sha256.Sum256([]byte(id.secret))
	config, err := json.Marshal(wire.RunnerConfig{
		SecretSHA256: hex.EncodeToString(sum[:]), Limits: t.Limits, Preload: t.Preload,
		Copy: t.Copy != nil, Python: c.Python, Isolation: c.isolation(), Life: lastBound(c, t),
	})
	if err != nil {
		panic("BUG: a runner's configuration is not JSON: " + err.Error())
	}
	return string(config)
}

func mainContainer(c PodConfig, t pool.Template, id identity) corev1.Container {
	return corev1.Container{
		Name: containerName, Image: t.Image, ImagePullPolicy: c.PullPolicy,
		Command:         []string{runnerPath(c), "serve"},
		WorkingDir:      "/work",
		Env:             []corev1.EnvVar{{Name: wire.RunnerEnv, Value: runnerConfig(c, t, id)}},
		Ports:           []corev1.ContainerPort{{Name: "runner", ContainerPort: wire.RunnerPort, Protocol: corev1.ProtocolTCP}},
		Resources:       resources(c, t.Limits),
		SecurityContext: locked(),
		// What a runner that cannot start says; what programs print it never logs.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		// One volume for all that is writable: the limit on disk is one limit.
		// It is in memory, and counts against the limit on memory as well.
		VolumeMounts: []corev1.VolumeMount{
			{Name: scratchVolume, MountPath: "/work", SubPath: "work"},
			{Name: scratchVolume, MountPath: "/tmp", SubPath: "tmp"},
			{Name: scratchVolume, MountPath: "/dev/shm", SubPath: "shm"},
		},
	}
}

func runnerPath(c PodConfig) string {
	switch c.RunnerFrom {
	case RunnerImage:
		return imageRunner
	case RunnerVolume:
		return runnerFolder + imageRunner
	}
	return runnerFolder + "/runner"
}

// locked is what every container of ours may do: nothing beyond its own user.
func locked() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		Privileged: new(false), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// resources are requests and limits, of memory and disk in one: a sandbox is
// never given what it was not promised. Processor time can be shared.
func resources(c PodConfig, l wire.Limits) corev1.ResourceRequirements {
	list := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(c.CPU),
		corev1.ResourceMemory:           *resource.NewQuantity(l.MemoryBytes+c.RunnerMemory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(c.EphemeralStorage, resource.BinarySI),
	}
	requests := list.DeepCopy()
	requests[corev1.ResourceCPU] = resource.MustParse(c.CPURequest)
	return corev1.ResourceRequirements{Requests: requests, Limits: list}
}

func scratch(l wire.Limits) corev1.Volume {
	return corev1.Volume{Name: scratchVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
		Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(l.DiskBytes, resource.BinarySI),
	}}}
}

// addRunner adds what brings the runner into an image that does not have it.
func addRunner(spec *corev1.PodSpec, c PodConfig, t pool.Template) {
	if c.RunnerFrom == RunnerImage {
		return
	}
	main := &spec.Containers[0]
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: runnerVolume, MountPath: runnerFolder, ReadOnly: true})
	if c.RunnerFrom == RunnerVolume {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: runnerVolume, VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: c.RunnerImage, PullPolicy: c.PullPolicy},
		}})
		return
	}
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: runnerVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(c.EphemeralStorage, resource.BinarySI)},
	}})
	spec.InitContainers = []corev1.Container{{
		Name: installName, Image: c.RunnerImage, ImagePullPolicy: c.PullPolicy,
		Command:         []string{imageRunner, "install", runnerFolder},
		Resources:       resources(c, t.Limits), // as the other's: else the pod's would be their greater ones
		SecurityContext: locked(),

		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,

		VolumeMounts: []corev1.VolumeMount{{Name: runnerVolume, MountPath: runnerFolder}},
	}}
}

// setDNS gives a sandbox its resolver. One without DNS asks itself, where
// nobody listens: a lookup fails at once instead of after many seconds.
func setDNS(spec *corev1.PodSpec, c PodConfig, t pool.Template) {
	if t.DNS == DNSRelay {
		spec.DNSPolicy, spec.DNSConfig = c.DNSPolicy, c.DNSConfig.DeepCopy()
		return
	}
	spec.DNSPolicy = corev1.DNSNone
	spec.DNSConfig = &corev1.PodDNSConfig{
		Nameservers: []string{"127.0.0.1"},
		Options:     []corev1.PodDNSConfigOption{{Name: "timeout", Value: new("1")}, {Name: "attempts", Value: new("1")}},
	}
}
