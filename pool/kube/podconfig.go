package kube

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// RunnerFrom says how the runner gets into a sandbox.
type RunnerFrom string

const (
	// RunnerInit copies it with an init container: works for any image on any
	// cluster.
	RunnerInit RunnerFrom = "init"
	// RunnerVolume mounts the product's image: a quicker start, where the
	// cluster has image volumes.
	RunnerVolume RunnerFrom = "volume"
	// RunnerImage says that the sandbox image has it: the quickest start.
	RunnerImage RunnerFrom = "image"
)

// PodConfig is what all sandbox pods have in common. A field that is zero has
// the default named with it.
type PodConfig struct {
	// Namespace is where sandboxes live. Required.
	Namespace string
	// ServiceAccount (code-sandbox-run) has no rights; no token of it is mounted.
	ServiceAccount string
	// RunnerImage is the product's image, with the runner in it. Required
	// unless RunnerFrom (init) is image.
	RunnerImage string
	RunnerFrom  RunnerFrom
	// PullPolicy (IfNotPresent) and PullSecrets (none) are for both images.
	PullPolicy  corev1.PullPolicy
	PullSecrets []string
	// User (65532) is the user and group id inside.
	User int64
	// CPU (1) is the limit, CPURequest (100m) what a node sets aside: a warm
	// sandbox uses none. RunnerMemory (64 MiB) is what the container
	// may use beyond the template's memory limit, for the runner itself, and
	// EphemeralStorage (64 MiB) what it may write to the node's disk.
	CPU, CPURequest  string
	RunnerMemory     int64
	EphemeralStorage int64
	// Python (python3) is the interpreter, a path or a command.
	Python string
	// UserNamespace sets hostUsers to false. RuntimeClass (none) names another
	// runtime, such as gVisor's.
	UserNamespace bool
	RuntimeClass  string
	// Where pods may be scheduled.
	NodeSelector  map[string]string
	Tolerations   []corev1.Toleration
	PriorityClass string
	// DNSPolicy (ClusterFirst) and DNSConfig (none) are for templates with DNS
	// "relay": a cluster with a node-local resolver names it here.
	DNSPolicy corev1.DNSPolicy
	DNSConfig *corev1.PodDNSConfig
	// Labels and Annotations are added to each pod. They cannot replace ours.
	Labels, Annotations map[string]string
	// Life (1 hour) is how long a sandbox may wait for its run, Grace (10 s)
	// what a run gets beyond the template's longest one; StartBound (5 minutes)
	// is added for the start. Their sum is the pod's activeDeadlineSeconds, the
	// bound that holds when everybody else has died.
	Life, Grace, StartBound time.Duration
}

func (c PodConfig) withDefaults() PodConfig {
	orDefault(&c.ServiceAccount, "code-sandbox-run")
	orDefault(&c.RunnerFrom, RunnerInit)
	orDefault(&c.PullPolicy, corev1.PullIfNotPresent)
	orDefault(&c.User, 65532)
	orDefault(&c.CPU, "1")
	orDefault(&c.CPURequest, "100m")
	orDefault(&c.RunnerMemory, 64<<20)
	orDefault(&c.EphemeralStorage, 64<<20)
	orDefault(&c.DNSPolicy, corev1.DNSClusterFirst)
	orDefault(&c.Life, time.Hour)
	orDefault(&c.Grace, 10*time.Second)
	orDefault(&c.StartBound, 5*time.Minute)
	return c
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate names the first setting that no pod can be made with.
func (c PodConfig) validate() error {
	if problems := validation.IsDNS1123Label(c.Namespace); len(problems) > 0 {
		return fmt.Errorf("the namespace %q is no name: %s", c.Namespace, problems[0])
	}
	limit, err := resource.ParseQuantity(c.CPU)
	if err != nil {
		return fmt.Errorf("the setting CPU %q is no quantity: %w", c.CPU, err)
	}
	request, err := resource.ParseQuantity(c.CPURequest)
	if err != nil {
		return fmt.Errorf("the setting CPURequest %q is no quantity: %w", c.CPURequest, err)
	}
	if request.Cmp(limit) > 0 {
		return fmt.Errorf("the setting CPURequest (%s) must not exceed CPU (%s)", c.CPURequest, c.CPU)
	}
	switch {
	case c.User <= 0:
		return fmt.Errorf("the setting User is %d: it must be a number above zero, which is root", c.User)
	case c.RunnerFrom != RunnerInit && c.RunnerFrom != RunnerVolume && c.RunnerFrom != RunnerImage:
		return fmt.Errorf("the setting RunnerFrom is %q; it is init, volume or image", c.RunnerFrom)
	case c.RunnerFrom != RunnerImage && c.RunnerImage == "":
		return errors.New("the setting RunnerImage must be set: the runner comes from it")
	case c.RunnerMemory < 0 || c.EphemeralStorage < 0:
		return errors.New("the settings RunnerMemory and EphemeralStorage must not be negative")
	case c.Life < time.Second || c.Grace < 0 || c.StartBound < 0:
		return errors.New("the setting Life must be a second or more, Grace and StartBound not negative")
	}
	return nil
}

// isolation is what results say stood around a program.
func (c PodConfig) isolation() string {
	if c.RuntimeClass == "" {
		return "pod"
	}
	return c.RuntimeClass
}
