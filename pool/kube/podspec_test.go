package kube

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

func testTemplate() pool.Template {
	return pool.Template{Image: "registry.example/python@sha256:" + strings.Repeat("a", 64), Limits: wire.DefaultLimits(), DNS: DNSRelay}
}

func testPods() PodConfig {
	return PodConfig{Namespace: "code-sandbox-runs", RunnerImage: "registry.example/code-sandbox@sha256:" + strings.Repeat("b", 64)}
}

var testID = identity{name: "sb-test", replica: "r-test", secret: "not in the pod"}

// golden compares the object, as YAML, with a file.
func golden(t *testing.T, name string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("%s is not as it was; look at the difference after -update:\n%s", file, got)
	}
}

func TestPods(t *testing.T) {
	f := func(name string, change func(*PodConfig, *pool.Template)) {
		t.Helper()
		c, template := testPods(), testTemplate()
		if change != nil {
			change(&c, &template)
		}
		c = c.withDefaults()
		if err := c.validate(); err != nil {
			t.Fatal(err)
		}
		golden(t, "pod-"+name, podFor(c, template, testID))
	}
	// As it is when only what must be set is set.
	f("default", nil)
	// All that can be set.
	f("full", func(c *PodConfig, template *pool.Template) {
		c.UserNamespace, c.RuntimeClass, c.PriorityClass = true, "gvisor", "sandboxes"
		c.PullSecrets, c.Python = []string{"registry"}, "/usr/bin/python3.12"
		c.NodeSelector = map[string]string{"pool": "sandboxes"}
		c.Tolerations = []corev1.Toleration{{Key: "sandboxes", Operator: corev1.TolerationOpExists}}
		c.DNSPolicy = corev1.DNSNone
		c.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"169.254.20.10"}}
		c.Labels = map[string]string{"team": "ml", LabelKind: "forged", "istio.io/dataplane-mode": "ambient"}
		c.Annotations = map[string]string{"cost": "42", "linkerd.io/inject": "enabled"}
		c.Life, c.CPU, c.CPURequest, c.User = 10*time.Minute, "250m", "50m", 20000
		template.Preload = []string{"numpy", "pandas"}
	})
	// No lookups, and the runner from an image volume.
	f("no-dns", func(c *PodConfig, template *pool.Template) { template.DNS, c.RunnerFrom = DNSNone, RunnerVolume })
	// The runner is in the sandbox's image.
	f("native", func(c *PodConfig, _ *pool.Template) { c.RunnerFrom, c.RunnerImage = RunnerImage, "" })
}

// Whatever is configured, a sandbox is locked down and holds no secret.
func TestPodsAreLocked(t *testing.T) {
	f := func(from RunnerFrom, dns string) {
		t.Helper()
		c, template := testPods(), testTemplate()
		c.RunnerFrom, template.DNS = from, dns
		p := podFor(c.withDefaults(), template, testID)
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), testID.secret) {
			t.Error("the secret is in the pod")
		}
		s := p.Spec
		if *s.AutomountServiceAccountToken || *s.EnableServiceLinks || s.HostNetwork || s.HostPID || s.HostIPC || len(p.OwnerReferences) > 0 {
			t.Errorf("the pod is not apart: %s", raw)
		}
		for _, v := range s.Volumes {
			if v.EmptyDir == nil && v.Image == nil {
				t.Errorf("the volume %q is none of ours", v.Name)
			}
		}
		for _, all := range append(s.InitContainers, s.Containers...) {
			sc := all.SecurityContext
			if *sc.Privileged || *sc.AllowPrivilegeEscalation || !*sc.ReadOnlyRootFilesystem || !*sc.RunAsNonRoot ||
				len(sc.Capabilities.Drop) != 1 || len(sc.Capabilities.Add) > 0 {
				t.Errorf("the container %q is not locked down", all.Name)
			}
			for name, limit := range all.Resources.Limits {
				// Processors are shared; the rest is set aside whole.
				want := limit
				if name == corev1.ResourceCPU {
					want = resource.MustParse("100m")
				}
				if request := all.Resources.Requests[name]; request.Cmp(want) != 0 || limit.IsZero() {
					t.Errorf("%s of %q: request %v, limit %v", name, all.Name, &request, &limit)
				}
			}
		}
	}
	for _, from := range []RunnerFrom{RunnerInit, RunnerVolume, RunnerImage} {
		f(from, DNSRelay)
		f(from, DNSNone)
	}
}

func TestPodConfigIsRefused(t *testing.T) {
	f := func(want string, change func(*PodConfig)) {
		t.Helper()
		c := testPods()
		change(&c)
		err := c.withDefaults().validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want one that names %q", err, want)
		}
	}
	f("namespace", func(c *PodConfig) { c.Namespace = "" })
	f("CPU", func(c *PodConfig) { c.CPU = "much" })
	// root
	f("User", func(c *PodConfig) { c.User = -1 })
	f("RunnerFrom", func(c *PodConfig) { c.RunnerFrom = "air" })
	f("RunnerImage", func(c *PodConfig) { c.RunnerImage = "" })
	f("RunnerMemory", func(c *PodConfig) { c.RunnerMemory = -1 })
	f("Life", func(c *PodConfig) { c.Life = time.Millisecond })
}

func TestNetworkPolicies(t *testing.T) {
	golden(t, "networkpolicies", NetworkPolicies(NetworkConfig{
		Namespace: "code-sandbox-runs", PoolNamespace: "code-sandbox", PoolLabels: map[string]string{LabelComponent: ComponentPool},
		DNSNamespace: "kube-system", DNSLabels: map[string]string{"k8s-app": "kube-dns"},
		DNSAddresses: []string{"169.254.20.10/32"}, DNSPorts: []int32{53, 5353},
	}))
}
