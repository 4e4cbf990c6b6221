package injector

import (
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// tokenFolder is where containers expect the token of their service account.
// The sidecar has its own there. With a mount on that path Kubernetes adds
// none: the admission plugin that gives every container the service account's
// token runs once more after us, and would give it to the sidecar too.
const tokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// tokenSeconds is how long a token is good; the kubelet renews it before. Less
// the API server does not give.
const tokenSeconds = 600

func tokenVolume(c Config) corev1.Volume {
	return corev1.Volume{Name: TokenVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: c.Audience, ExpirationSeconds: new(int64(tokenSeconds)), Path: "token"}}},
	}}}
}

// sidecarContainer is a native sidecar: it starts before the pod's own init
// containers, and ends when the agent has.
func sidecarContainer(pod *corev1.Pod, c Config, policy Policy) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := corev1.Container{
		Name: SidecarName, Image: c.Image, ImagePullPolicy: c.PullPolicy,
		Command: []string{"/usr/local/bin/sidecar"}, RestartPolicy: &always,
		Env:          sidecarEnv(c, policy),
		Ports:        []corev1.ContainerPort{{Name: "cs-admin", ContainerPort: adminPort, Protocol: corev1.ProtocolTCP}},
		Resources:    ownResources(pod, c),
		VolumeMounts: []corev1.VolumeMount{{Name: TokenVolume, MountPath: tokenFolder, ReadOnly: true}},
		// It asks whether the sidecar listens, not whether the pool answers: an
		// agent must come up without the pool, and its first call waits.
		StartupProbe:             probe("/healthz", 1, 60),
		SecurityContext:          restricted(c.UID),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if c.Hook && policy.requiresHook() {
		// The agent starts after us, so it is no matter of our start. What counts
		// is the pod: nobody is sent to it before.
		sidecar.ReadinessProbe = probe("/readyz", 2, 1)
	}
	return sidecar
}

// probe asks the sidecar's admin port.
func probe(path string, everySeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(adminPort), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds: everySeconds, TimeoutSeconds: 1, FailureThreshold: failures, SuccessThreshold: 1,
	}
}

// sidecarDefaults are the variables that the sidecar reads and that nobody sets:
// they are told as empty, so that its defaults hold whatever else comes with the
// pod.
var sidecarDefaults = []string{
	"CODE_SANDBOX_POOL_NAME", "CODE_SANDBOX_POOL_CA_FILE", "CODE_SANDBOX_TIMEOUT", "CODE_SANDBOX_WAIT", "CODE_SANDBOX_DRAIN",
	"CODE_SANDBOX_REQUESTS", "CODE_SANDBOX_LOG_LEVEL", "CODE_SANDBOX_TOOL_FUNCTIONS", "CODE_SANDBOX_FIRST_PARTY",
}

func sidecarEnv(c Config, policy Policy) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "CODE_SANDBOX_POOL", Value: c.Pool},
		{Name: poolCA, Value: c.CA},
		{Name: "CODE_SANDBOX_TOKEN_FILE", Value: path.Join(tokenFolder, "token")},
		{Name: "CODE_SANDBOX_LISTEN", Value: "127.0.0.1:" + strconv.Itoa(apiPort)},
		{Name: "CODE_SANDBOX_ADMIN_LISTEN", Value: ":" + strconv.Itoa(adminPort)},
		{Name: "CODE_SANDBOX_POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: "metadata.uid"}}},
		// The collector works harder before the kernel ends the sidecar.
		{Name: "GOMEMLIMIT", Value: strconv.FormatInt(c.Limits.Memory().Value()*4/5, 10)},
		{Name: "GOMAXPROCS", Value: "2"},
	}
	if !c.Hook {
		policy = Policy{keyTools: "off"}
	}
	env = append(env, policy.environment(forSidecar)...)
	for _, name := range sidecarDefaults {
		env = append(env, corev1.EnvVar{Name: name})
	}
	return env
}

// restricted is what the policy "restricted" of Pod Security asks for, and a
// root that cannot be written to.
func restricted(uid int64) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsNonRoot: new(true), RunAsUser: &uid, RunAsGroup: &uid,
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Privileged: new(false),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// ownResources are requests and limits, both: namespaces with a quota take
// no container without. In a pod of the class Guaranteed the requests are
// raised to the limits, or the agent would lose its class.
func ownResources(pod *corev1.Pod, c Config) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: c.Requests.DeepCopy(), Limits: c.Limits.DeepCopy()}
	if guaranteed(pod) {
		r.Requests = c.Limits.DeepCopy()
	}
	return r
}

// guaranteed says whether each container has what it asks for, no more and no
// less: then the kernel ends it last.
func guaranteed(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			for _, name := range []corev1.ResourceName{"cpu", "memory"} {
				limit, limited := c.Resources.Limits[name]
				request, asked := c.Resources.Requests[name]
				// A limit alone is a request too.
				if !limited || limit.IsZero() || asked && request.Cmp(limit) != 0 {
					return false
				}
			}
		}
	}
	return len(pod.Spec.Containers) > 0
}
