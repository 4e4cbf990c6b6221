package charts

import (
	"path"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// notes are what Helm says after an installation.
func notes(t *testing.T, chart, namespace, values string) string {
	t.Helper()
	c := load(t, chart)
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	ready, err := chartutil.ToRenderValues(c, given, common.ReleaseOptions{Name: "ours", Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, ready)
	if err != nil {
		t.Fatal(err)
	}
	return files[path.Join(chart, "templates", "NOTES.txt")]
}

// The commands in it are to be pasted: they have what this installation needs.
func TestNotes(t *testing.T) {
	f := func(chart, namespace, values string, says ...string) {
		t.Helper()
		text := notes(t, chart, namespace, values)
		for _, s := range says {
			if want := !strings.HasPrefix(s, "!"); strings.Contains(text, strings.TrimPrefix(s, "!")) != want {
				t.Errorf("%q in what it says is not %v: %s", s, want, text)
			}
		}
	}
	const install = "  helm install agents helm/agent-namespace --namespace NAMESPACE --set test.image.ref=code-sandbox-python:0.1.0,doctor.image.ref=code-sandbox:0.1.0"
	// As it is: nothing to warn of, and nothing more to set.
	f("code-sandbox", "code-sandbox", "{}", install+"\n\n", "!WARNING", "!platformNamespace", "helm test agents --namespace NAMESPACE --logs")
	// Elsewhere, with images from a registry that asks who one is, and a resolver on the nodes.
	f("code-sandbox", "boxes", `{image: {pullSecrets: [a, b]}, network: {dns: {addresses: ["169.254.20.10/32"]}}}`, install+` \
    --set platformNamespace=boxes \
    --set 'test.image.pullSecrets={a,b},doctor.image.pullSecrets={a,b}' \
    --set 'network.dns.addresses={169.254.20.10/32}'
`)
	// What was switched off.
	f("code-sandbox", "code-sandbox", "{network: {proof: false}, admissionPolicy: {enabled: false}}", "WARNING: network.proof is false",
		"WARNING: admissionPolicy.enabled is false")
	f("code-sandbox", "code-sandbox", "injector: {enabled: false}", "!kubectl label namespace NAMESPACE")
	// Of agents.
	f("agent-namespace", "agents", "{}", "kubectl -n agents rollout restart deployment", "!helm test")
	f("agent-namespace", "agents", "test: {image: {ref: python}}", "helm test ours --namespace agents --logs", "!doctor")
	f("agent-namespace", "agents", "doctor: {image: {ref: product}}", "helm test ours --namespace agents --logs", "runs doctor")
}

// helm lint has nothing to say but that there is no icon.
func TestLint(t *testing.T) {
	for _, chart := range charts {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(on[chart]), &values); err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.RunAll(folder(chart), values, "system").Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", chart, m)
			}
		}
	}
}
