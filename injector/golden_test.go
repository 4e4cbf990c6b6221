package injector

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testConfig is a cluster's, as the chart would make it.
func testConfig() Config {
	c := DefaultConfig()
	c.Namespace, c.RunsNamespace = "code-sandbox", "code-sandbox-runs"
	c.Image, c.Pool = "registry.example/code-sandbox@sha256:0000", "code-sandbox-pool.code-sandbox.svc:8443"
	c.CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	return c
}

func enrolled() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "agents", Labels: map[string]string{LabelEnabled: "true"}}}
}

// golden injects testdata/NAME.yaml and holds the pod that comes out against
// testdata/NAME.out.yaml; then it does so once more, which must change nothing.
func golden(t *testing.T, name string, namespace *corev1.Namespace, c Config) *corev1.Pod {
	t.Helper()
	pod := readPod(t, name)
	a := consider(pod, namespace, c)
	if a.result != injected {
		t.Fatalf("%s: it is %s: %v", name, a.result, a.verdict)
	}
	out := apply(t, pod, a.patch)
	text, err := yaml.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".out.yaml")
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(text) {
		t.Errorf("%s: the pod is not as in %s; -update writes it anew:\n%s", name, file, text)
	}
	if again := consider(out, namespace, c); len(again.patch) > 0 || again.verdict.Reason != AlreadyInjected {
		t.Errorf("%s: asked again, the answer is %+v", name, again)
	}
	return out
}

// apply patches a pod as the API server does, and finds what the pod type
// does not know.
func apply(t *testing.T, pod *corev1.Pod, ops []Op) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		t.Fatalf("the patch does not apply: %v\n%s", err, raw)
	}
	var out corev1.Pod
	strict := json.NewDecoder(bytes.NewReader(after))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestGolden(t *testing.T) {
	withHook := testConfig()
	withHook.Hook = true
	policy := enrolled()
	policy.Annotations = map[string]string{Prefix + "tool-env-allow": "TZ,LANG", Prefix + "tools": "audit"}
	secrets := testConfig()
	secrets.PullSecrets = []string{"registry", "own"}

	// A bare pod with next to nothing.
	golden(t, "bare", enrolled(), testConfig())
	// A Deployment's pod, with init containers, volumes and annotations of its own.
	golden(t, "deployment", enrolled(), testConfig())
	// The same with secrets for the registry: one is there already.
	golden(t, "secrets", enrolled(), secrets)
	// Guaranteed: it keeps its class.
	golden(t, "guaranteed", enrolled(), testConfig())
	// The hook, beside every way to set PYTHONPATH; the pod's word stands over
	// the namespace's.
	golden(t, "hook", policy, withHook)
	// What the image's PYTHONPATH is, is said: no step looks.
	golden(t, "hook-said", enrolled(), withHook)
	// The hook in one of two containers.
	golden(t, "hook-one", enrolled(), withHook)
	// Variables that only a policy may set.
	golden(t, "own-variables", enrolled(), withHook)
	// Mode off: a sidecar, and no hook.
	off := golden(t, "hook-off", enrolled(), withHook)
	if len(off.Spec.InitContainers) != 1 {
		t.Errorf("the mode is off, and there are %d init containers", len(off.Spec.InitContainers))
	}
}

// The token is the sidecar's alone, and it has no other.
func TestTokenIsTheSidecarsAlone(t *testing.T) {
	c := testConfig()
	c.Hook = true
	for _, name := range []string{"bare", "deployment", "hook", "guaranteed"} {
		pod := readPod(t, name)
		out := apply(t, pod, consider(pod, enrolled(), c).patch)
		has := 0
		for _, list := range [][]corev1.Container{out.Spec.InitContainers, out.Spec.Containers} {
			for _, container := range list {
				for _, m := range container.VolumeMounts {
					if m.Name != TokenVolume {
						continue
					}
					if has++; container.Name != SidecarName || !m.ReadOnly || m.MountPath != tokenFolder {
						t.Errorf("%s: %s has the token at %s", name, container.Name, m.MountPath)
					}
				}
			}
		}
		if has != 1 {
			t.Errorf("%s: the token is mounted %d times", name, has)
		}
	}
}

// Another webhook adds a container after us: asked again, we give it the hook
// and touch nothing else.
func TestReinvocation(t *testing.T) {
	c := testConfig()
	c.Hook = true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "a"}}}}
	once := apply(t, pod, consider(pod, enrolled(), c).patch)
	// As mirrors of registries do.
	once.Spec.InitContainers[1].Image, once.Spec.InitContainers[2].Image = "rewritten.example/a", "rewritten.example/code-sandbox@sha256:0000"
	once.Spec.Containers = append(once.Spec.Containers, corev1.Container{Name: "late", Image: "b"})
	twice := apply(t, once, consider(once, enrolled(), c).patch)
	if !reflect.DeepEqual(twice.Spec.InitContainers[2:], once.Spec.InitContainers[1:]) || !reflect.DeepEqual(twice.Spec.Containers[0], once.Spec.Containers[0]) {
		t.Errorf("asked again, what was there has changed: %+v", twice.Spec)
	}
	late := twice.Spec.Containers[1]
	if len(late.VolumeMounts) != 1 || late.Env[0].Value != hookPath || late.Env[1].Value != hookFolder+"/image/1" {
		t.Errorf("the late container has no hook: %+v", late)
	}
	var order []string
	for _, c := range twice.Spec.InitContainers {
		order = append(order, c.Name+" "+c.Image)
	}
	want := []string{HookName + " " + c.Image, recordPrefix + "1 b", recordPrefix + "0 rewritten.example/a", SidecarName + " rewritten.example/code-sandbox@sha256:0000"}
	if !slices.Equal(order, want) {
		t.Errorf("the steps are %q", order)
	}
}
