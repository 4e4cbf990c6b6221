//go:build e2e

package smoke

import (
	"context"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// The API server calls a webhook over TLS and follows its patch. With another
// authority than the one that signed the webhook's certificate it does not,
// and lets no pod in.
func TestWebhook(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	cert, key := e2e.SelfSigned(t, "hook."+s.Name+".svc")
	stranger, _ := e2e.SelfSigned(t, "hook."+s.Name+".svc")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Data: map[string][]byte{"tls.crt": cert, "tls.key": key}}
	if _, err := s.Kube.CoreV1().Secrets(s.Name).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := s.Pod("hook", "probe", "webhook", ":8443", "/tls/tls.crt", "/tls/tls.key")
	p.Spec.Volumes = []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "hook"}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "tls", MountPath: "/tls", ReadOnly: true}}
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8443)}}}
	s.Create(p)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec: corev1.ServiceSpec{Selector: p.Labels, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(8443)}}}}
	if _, err := s.Kube.CoreV1().Services(s.Name).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.WaitReady("hook")
	register(s, "trusted", cert)
	register(s, "distrusted", stranger)
	s.Eventually("a pod has the webhook's mark", func(ctx context.Context) error {
		marked, err := dryRun(ctx, s, "trusted")
		if err != nil {
			return err
		}
		if marked.Annotations["bed.test/seen"] != "yes" {
			return fmt.Errorf("its annotations are %q", marked.Annotations)
		}
		return nil
	})
	if _, err := dryRun(t.Context(), s, "distrusted"); err == nil {
		t.Error("a webhook with a certificate of a stranger was believed")
	}
}

// register makes the API server ask the webhook about pods with the label.
func register(s *e2e.Space, label string, ca []byte) {
	s.T.Helper()
	fail, none := admissionv1.Fail, admissionv1.SideEffectClassNone
	name := s.Name + "-" + label
	_, err := s.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(s.T.Context(), &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "hook.bed.test", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.Name}},
			ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"hook": label}},
			ClientConfig:      admissionv1.WebhookClientConfig{CABundle: ca, Service: &admissionv1.ServiceReference{Namespace: s.Name, Name: "hook"}},
			Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatalf("cannot register a webhook: %v", err)
	}
	s.T.Cleanup(func() {
		ctx := context.WithoutCancel(s.T.Context())
		if err := s.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			s.T.Errorf("cannot remove a webhook: %v", err)
		}
	})
}

// dryRun asks for a pod, and has the API server answer what it would create.
func dryRun(ctx context.Context, s *e2e.Space, label string) (*corev1.Pod, error) {
	p := s.Pod("asked", "probe", "sleep")
	p.Labels = map[string]string{"hook": label}
	return s.Kube.CoreV1().Pods(s.Name).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
