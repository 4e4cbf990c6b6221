//go:build e2e

package tools

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// op is one of a patch.
type op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// T19: another webhook that adds a container, or a credential, to copies gets them
// refused, and no body runs; one of a platform that changes what decides over
// nothing inside of a pod is none of ours to mind.
func (p *platform) testWebhooks(t *testing.T) {
	mark := call("marked", map[string]any{"path": "/tmp/mark", "then": ""})
	refused := func(name, words string, patch ...op) {
		t.Helper()
		remove := p.webhook(t, name, patch)
		defer remove()
		r := p.run(t, p.agent(name, calls(t, mark)...))
		if !strings.HasPrefix(r.Said[0], "Unsandboxable: cannot copy the agent: the cluster's admission changed the copy's pod: ") || !strings.Contains(r.Said[0], words) || len(r.Marks) > 0 {
			t.Errorf("%s: the call ended with %q, and the agent has the marks %q", name, r.Said[0], r.Marks)
		}
		p.agents.Eventually("no copy is left", func(ctx context.Context) error {
			list, err := p.copies(ctx)
			if err == nil && slices.ContainsFunc(list, func(c corev1.Pod) bool { return ownedBy(c, name) }) {
				err = errNotYet
			}
			return err
		})
	}
	proxy := p.agents.Pod("mesh-proxy", "probe", "sleep").Spec.Containers[0]
	proxy.Name = "mesh-proxy"
	// What has no limits is refused by the chart's policy already, what has them by
	// the pool, which reads the pod back.
	refused("injects", "take no variable from elsewhere, and have limits", op{"add", "/spec/containers/-", proxy})
	some := resource.MustParse("32Mi")
	proxy.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: some, corev1.ResourceEphemeralStorage: some}
	refused("injects-bounded", "spec.containers[mesh-proxy] was added", op{"add", "/spec/containers/-", proxy})
	refused("tells", "env[AWS_ROLE_ARN] was added",
		op{"add", "/spec/containers/0/env/-", corev1.EnvVar{Name: "AWS_ROLE_ARN", Value: mark0}})

	remove := p.webhook(t, "platform", []op{
		{"add", "/metadata/labels/cost-center", "42"}, {"add", "/metadata/annotations/platform.example~1seen", "yes"},
		{"add", "/spec/tolerations/-", corev1.Toleration{Key: "batch", Operator: corev1.TolerationOpExists}},
	})
	defer remove()
	r := p.run(t, p.agent("of-a-platform", staying(calls(t, mark))...))
	defer p.remove(t, "of-a-platform")
	if r.Said[0] != "done" || len(r.Marks) > 0 {
		t.Errorf("the call ended with %q, and the agent has the marks %q", r.Said[0], r.Marks)
	}
	p.hasCopy(t, "of-a-platform", func(c corev1.Pod) bool {
		return c.Labels["cost-center"] == "42" && c.Annotations["platform.example/seen"] == "yes"
	})
}

// mark0 is a credential that a webhook would give away.
const mark0 = mark + "of-a-webhook"

func ownedBy(c corev1.Pod, agent string) bool {
	return len(c.OwnerReferences) == 1 && c.OwnerReferences[0].Name == agent
}

// webhook runs one that changes the copies beside agents, until it is removed.
func (p *platform) webhook(t *testing.T, name string, patch []op) (remove func()) {
	t.Helper()
	s := p.hooks
	raw, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := e2e.SelfSigned(t, name+"."+s.Name+".svc")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"tls.crt": cert, "tls.key": key}}
	if _, err := s.Kube.CoreV1().Secrets(s.Name).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := s.Pod(name, "probe", "webhook", ":8443", "/tls/tls.crt", "/tls/tls.key", string(raw))
	pod.Labels = map[string]string{"hook": name}
	pod.Spec.Volumes = []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "tls", MountPath: "/tls", ReadOnly: true}}
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8443)}}}
	s.Create(pod)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Selector: pod.Labels, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(8443)}}}}
	if _, err := s.Kube.CoreV1().Services(s.Name).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.WaitReady(name)
	return p.register(t, name, cert)
}

// register has the API server ask the webhook about copies, and waits until it
// does.
func (p *platform) register(t *testing.T, name string, ca []byte) (remove func()) {
	t.Helper()
	fail, none, configured := admissionv1.Fail, admissionv1.SideEffectClassNone, p.hooks.Name+"-"+name
	configurations := p.hooks.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := configurations.Create(t.Context(), &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: configured},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: name + ".bed.test", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": p.agents.Name}},
			ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"code-sandbox.dev/copy": "true"}},
			ClientConfig:      admissionv1.WebhookClientConfig{CABundle: ca, Service: &admissionv1.ServiceReference{Namespace: p.hooks.Name, Name: name}},
			Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("cannot register a webhook: %v", err)
	}
	remove = func() {
		ctx := context.WithoutCancel(t.Context())
		if err := configurations.Delete(ctx, configured, metav1.DeleteOptions{}); err != nil {
			t.Errorf("cannot remove a webhook: %v", err)
		}
	}
	// The chart's policy refuses what is like a copy and is not the pool's, after all
	// webhooks were asked.
	like := p.agents.Pod("like-a-copy", "probe", "sleep")
	like.Labels["code-sandbox.dev/copy"] = "true"
	err = e2e.Within(t.Context(), e2e.Patience, func(ctx context.Context) error {
		_, answer := p.agents.Kube.CoreV1().Pods(p.agents.Name).Create(ctx, like, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !strings.Contains(p.hooks.Log(name, "main"), "asked") {
			return errors.Join(errNotYet, answer)
		}
		return nil
	})
	if err != nil {
		remove()
		t.Fatalf("the webhook is not asked within %s: %v", e2e.Patience, err)
	}
	return remove
}
