//go:build e2e

package inject

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// A pod as the API server has it after admission, defaults and all, is believed
// when it is asked about again, with what a platform adds to every container;
// one that says so and is not as the injector makes it is refused in words.
func (p *platform) testForged(t *testing.T) {
	s := p.agents(t)
	create := func(pod *corev1.Pod) (*corev1.Pod, error) {
		return s.Kube.CoreV1().Pods(s.Name).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	made, err := create(s.Pod("a", "agent-python"))
	if err != nil || !injected(made) {
		t.Fatalf("it has no sidecar: %v", err)
	}
	once := made.DeepCopy()
	once.ResourceVersion, once.UID, once.Status = "", "", corev1.PodStatus{}
	for _, list := range [][]corev1.Container{once.Spec.InitContainers, once.Spec.Containers} {
		for i := range list {
			list[i].Env = append(list[i].Env, corev1.EnvVar{Name: "PLATFORM", Value: "yes"})
		}
	}
	twice, err := create(once)
	if err != nil {
		t.Fatalf("what was injected is not believed: %v", err)
	}
	if a, b := len(once.Spec.InitContainers), len(twice.Spec.InitContainers); a != b || len(twice.Spec.Volumes) != len(once.Spec.Volumes) {
		t.Errorf("it has %d init containers, and had %d", b, a)
	}
	f := func(says string, change func(*corev1.Pod)) {
		t.Helper()
		pod := once.DeepCopy()
		change(pod)
		_, err := create(pod)
		refused(t, err, says)
		refused(t, err, `remove the annotation code-sandbox.dev/injected, the annotation code-sandbox.dev/policy, the container "code-sandbox-hook"`)
	}
	sidecar := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for i := range pod.Spec.InitContainers {
				if c := &pod.Spec.InitContainers[i]; c.Name == "code-sandbox-sidecar" {
					change(c)
				}
			}
		}
	}
	f(`"code-sandbox-sidecar" has the image`, sidecar(func(c *corev1.Container) { c.Image = s.Image("probe") }))
	f(`"code-sandbox-sidecar" has another command`, sidecar(func(c *corev1.Container) { c.Command = []string{"/bin/true"} }))
	f("another value of the variable CODE_SANDBOX_TOOLS", sidecar(func(c *corev1.Container) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "CODE_SANDBOX_TOOLS", Value: "off"})
	}))
	f("is not the policy in force", func(p *corev1.Pod) { p.Annotations["code-sandbox.dev/policy"] = `{"tools":"off"}` })
}

// A namespace that was enrolled a moment ago has no pod without a sidecar.
func (p *platform) testEnrolledNow(t *testing.T) {
	for range 5 {
		s := e2e.NewSpace(t, e2e.Labels(map[string]string{"code-sandbox.dev/enabled": "true"}))
		made, err := s.Kube.CoreV1().Pods(s.Name).Create(t.Context(), s.Pod("a", "probe", "sleep"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || !injected(made) {
			t.Errorf("it has no sidecar: %v", err)
		}
	}
}

// Somebody empties the authority's Secret: there is a new one, and while both are
// believed every pod is injected; the replicas agree, and an agent that comes
// later has its answer.
func (p *platform) testEmptied(t *testing.T) {
	s := p.agents(t)
	secrets := s.Kube.CoreV1().Secrets(p.system.Name)
	if _, err := secrets.Patch(t.Context(), "code-sandbox-ca", types.JSONPatchType, []byte(`[{"op":"remove","path":"/data"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	bundle := func(ctx context.Context) ([]byte, error) {
		w, err := s.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "code-sandbox", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return w.Webhooks[0].ClientConfig.CABundle, nil
	}
	both := func(ctx context.Context) error {
		made, err := s.Kube.CoreV1().Pods(s.Name).Create(ctx, s.Pod("a", "probe", "sleep"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || !injected(made) {
			t.Errorf("while the authority changes a pod is not injected: %v", err)
		}
		ca, err := bundle(ctx)
		if n := bytes.Count(ca, []byte("BEGIN CERTIFICATE")); err == nil && n != 2 {
			err = fmt.Errorf("the webhook has %d authorities", n)
		}
		return err
	}
	s.Eventually("the webhook has both authorities", both)
	agreed, err := bundle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err := both(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := bundle(t.Context()); err != nil || !bytes.Equal(now, agreed) {
		t.Errorf("the replicas do not agree: %v", err)
	}
	secret, err := secrets.Get(t.Context(), "code-sandbox-ca", metav1.GetOptions{})
	if err != nil || !strings.Contains(string(agreed), string(secret.Data["ca.crt"])) || !strings.Contains(string(agreed), string(secret.Data["former.crt"])) {
		t.Errorf("the webhook has others than the Secret: %v", err)
	}
	s.Create(agent(s, "later", "agent-python"))
	answered(s, "later")
}
