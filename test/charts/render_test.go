package charts

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// charts are where they stand.
var charts = []string{"code-sandbox", "agent-namespace"}

func folder(name string) string { return filepath.Join("..", "..", "helm", name) }

func load(t *testing.T, name string) *chart.Chart {
	t.Helper()
	c, err := loader.Load(folder(name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// object is one of what a chart renders.
type object map[string]any

func (o object) kind() string { return o.at("kind").(string) }

func (o object) name() string { return o.at("metadata", "name").(string) }

// at follows keys, and is nil where there is nothing.
func (o object) at(keys ...string) any {
	var v any = map[string]any(o)
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

// try renders a chart with values, given as YAML; later ones stand over earlier.
func try(t *testing.T, name string, values ...string) ([]object, error) {
	t.Helper()
	return tryAs(t, name, common.ReleaseOptions{Name: "test", Namespace: "system", Revision: 1, IsInstall: true}, values...)
}

func tryAs(t *testing.T, name string, release common.ReleaseOptions, values ...string) ([]object, error) {
	t.Helper()
	c := load(t, name)
	given := map[string]any{}
	for _, more := range slices.Backward(values) {
		var v map[string]any
		if err := yaml.Unmarshal([]byte(more), &v); err != nil {
			t.Fatal(err)
		}
		given = chartutil.CoalesceTables(given, v)
	}
	ready, err := chartutil.ToRenderValues(c, given, release, nil)
	if err != nil {
		return nil, err
	}
	return rendered(t, c, ready)
}

// rendered are the objects that a chart makes of values that were checked.
func rendered(t *testing.T, c *chart.Chart, ready common.Values) ([]object, error) {
	t.Helper()
	files, err := engine.Render(c, ready)
	if err != nil {
		return nil, err
	}
	var all []object
	for file, text := range files {
		if strings.HasSuffix(file, "NOTES.txt") {
			continue
		}
		for part := range strings.SplitSeq("\n"+text, "\n---\n") {
			var o object
			if err := yaml.Unmarshal([]byte(part), &o); err != nil {
				t.Fatalf("%s is no YAML: %v\n%s", file, err, part)
			}
			if len(o) > 0 {
				all = append(all, o)
			}
		}
	}
	return all, nil
}

func render(t *testing.T, name, values string) []object {
	t.Helper()
	all, err := try(t, name, values)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// find returns the one object of a kind and a name.
func find(t *testing.T, all []object, kind, name string) object {
	t.Helper()
	for _, o := range all {
		if o.kind() == kind && o.name() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %q", kind, name)
	return nil
}

// everything switches on all that a chart can render.
const everything = `
monitoring: {serviceMonitor: {enabled: true}, rules: {enabled: true}, dashboard: {enabled: true}}
image: {pullSecrets: [registry]}
`

// Values that cannot be are refused in words that name them.
func TestValuesAreRefused(t *testing.T) {
	f := func(chart, values, says string) {
		t.Helper()
		_, err := try(t, chart, values)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the error is %v", values, err)
		}
	}
	// A word that is no value, at the top and further down.
	f("code-sandbox", "pools: {}", "'pools' not allowed")
	f("code-sandbox", "pool: {replica: 3}", "'replica' not allowed")
	f("agent-namespace", "policy: {moed: off}", "'moed' not allowed")
	// A wrong type, number, or word.
	f("code-sandbox", "pool: {replicas: three}", "/pool/replicas")
	f("code-sandbox", "pool: {replicas: 0}", "/pool/replicas")
	f("code-sandbox", "sandbox: {dns: open}", "must be one of 'relay', 'none'")
	f("code-sandbox", "sandbox: {cpu: much}", "/sandbox/cpu")
	f("code-sandbox", "image: {digest: latest}", "/image/digest")
	f("code-sandbox", "injector: {cannotInject: maybe}", "/injector/cannotInject")
	f("code-sandbox", "sidecar: {uid: 0}", "/sidecar/uid")
	f("code-sandbox", "network: {canaries: [example.org]}", "/network/canaries")
	f("code-sandbox", `image: {pullSecrets: ["a,b"]}`, "/image/pullSecrets")
	f("code-sandbox", `image: {repository: "a b"}`, "/image/repository")
	f("code-sandbox", `sandbox: {nameServers: ["dns.example"]}`, "/sandbox/nameServers")
	f("code-sandbox", `sandbox: {runtimeClassName: "gvisor #1"}`, "/sandbox/runtimeClassName")
	f("code-sandbox", `sandbox: {nodeSelector: {pool: "a b"}}`, "/sandbox/nodeSelector")
	f("code-sandbox", `pool: {tolerations: [{keys: a}]}`, "'keys' not allowed")
	f("code-sandbox", `injector: {env: {"A-B": x}}`, "invalid propertyName 'A-B'")
	f("code-sandbox", `injector: {policy: {grants: "a\nb"}}`, "/injector/policy/grants")
	f("agent-namespace", `network: {dns: {addresses: [169.254.20.10]}}`, "/network/dns/addresses")
	f("agent-namespace", `test: {image: {ref: "a b"}}`, "/test/image/ref")
	f("agent-namespace", "policy: {tools: strict}", "/policy/tools")
	f("agent-namespace", `policy: {toolFunctions: ["tools"]}`, "/policy/toolFunctions")
	f("agent-namespace", `policy: {toolEnvAllow: ["A,B"]}`, "/policy/toolEnvAllow")
	f("agent-namespace", `doctor: {internet: ["1.1.1.1"]}`, "/doctor/internet")
	// What is right alone and wrong together.
	f("code-sandbox", "runs: {namespace: system}", "sandboxes need a namespace for themselves")
	f("code-sandbox", "pool: {replicas: 10, max: 100}", "raise the quota, or lower pool.max")
	f("agent-namespace", "platformNamespace: system", "agents belong into another")
}

// Each default is a value, and each value has a place in the schema.
func TestDefaultsAreValid(t *testing.T) {
	for _, name := range charts {
		render(t, name, "{}")
	}
	render(t, "code-sandbox", everything)
}
