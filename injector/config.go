package injector

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Config is what every injected pod gets.
type Config struct {
	Namespace     string // of the injector and the pool
	RunsNamespace string // of the sandboxes
	Image         string // of the product; the sidecar and the hook come from it
	PullPolicy    corev1.PullPolicy
	PullSecrets   []string // names of secrets that agents' namespaces have
	Pool          string   // HOST:PORT of the pool
	CA            string   // what the pool's certificate is signed by, PEM
	Audience      string   // of the sidecar's token
	UID           int64    // of the sidecar; no agent should have the same
	Requests      corev1.ResourceList
	Limits        corev1.ResourceList
	// Hook adds the tool-call hook to the agent's containers.
	Hook     bool
	Defaults Policy
	// Deny refuses pods that cannot be injected. Otherwise they are let in
	// without a sidecar, with a warning.
	Deny bool
}

// DefaultConfig has all that does not depend on the cluster.
func DefaultConfig() Config {
	return Config{
		PullPolicy: corev1.PullIfNotPresent, Audience: "code-sandbox-pool", UID: 8900, Defaults: Policy{keyTools: "enforce"},
		Requests: corev1.ResourceList{"cpu": resource.MustParse("10m"), "memory": resource.MustParse("24Mi")},
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("64Mi")},
	}
}

// Validate names the first field that cannot be.
func (c *Config) Validate() error {
	for _, f := range []struct{ name, value string }{
		{"namespace", c.Namespace}, {"namespace of runs", c.RunsNamespace}, {"image", c.Image}, {"address of the pool", c.Pool},
		{"audience", c.Audience},
	} {
		if f.value == "" || strings.ContainsAny(f.value, " \n") {
			return fmt.Errorf("the %s is %q", f.name, f.value)
		}
	}
	if c.UID <= 0 {
		return fmt.Errorf("the sidecar's user id is %d; it must be above 0", c.UID)
	}
	switch c.PullPolicy {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return fmt.Errorf("the pull policy is %q; it can be Always, IfNotPresent or Never", c.PullPolicy)
	}
	for _, name := range []corev1.ResourceName{"cpu", "memory"} {
		request, limit := c.Requests[name], c.Limits[name]
		if request.Sign() <= 0 || limit.Sign() <= 0 || request.Cmp(limit) > 0 {
			return fmt.Errorf("the sidecar asks for %s of %s and may use %s; both must be above 0, and the first no more than the second",
				request.String(), name, limit.String())
		}
	}
	if _, _, err := Resolve(c.Defaults, nil, nil); err != nil {
		return fmt.Errorf("the default policy is not valid: %w", err)
	}
	for key := range c.Defaults {
		if !isSetting(key) {
			return fmt.Errorf("the default policy has %q, which means nothing", clip(key))
		}
	}
	return nil
}
