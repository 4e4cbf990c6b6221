package charts

import (
	"path/filepath"
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

// try renders a chart with values, given as YAML.
func try(t *testing.T, name, values string) ([]object, error) {
	t.Helper()
	c := load(t, name)
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	options := common.ReleaseOptions{Name: "test", Namespace: "system", Revision: 1, IsInstall: true}
	ready, err := chartutil.ToRenderValues(c, given, options, nil)
	if err != nil {
		return nil, err
	}
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
	f("agent-namespace", "policy: {mode: strict}", "/policy/mode")
	f("agent-namespace", `policy: {toolFunctions: ["tools"]}`, "/policy/toolFunctions")
	f("agent-namespace", `policy: {toolEnvAllow: ["A,B"]}`, "/policy/toolEnvAllow")
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
