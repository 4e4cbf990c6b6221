//go:build e2e

package kube_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/kube"
)

// fails starts a sandbox that cannot start and checks what is told, how soon,
// and that nothing is left.
func (s *site) fails(t *testing.T, d *kube.Driver, template pool.Template, code api.Code, reason string, atMost time.Duration, words ...string) {
	t.Helper()
	began := time.Now()
	box, err := d.Start(t.Context(), template)
	took := time.Since(began)
	if err == nil {
		t.Fatalf("%s started", box.ID())
	}
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != code || e.Reason != reason || e.Executed != api.No || took > atMost {
		t.Errorf("after %v: %#v", took, err)
	}
	for _, want := range words {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	t.Logf("after %v: %v", took, err)
	s.empty()
}

// empty waits until the namespace has no pods: at once, since a start that
// fails cleans up before it returns.
func (s *site) empty() {
	s.T.Helper()
	list, err := s.Kube.CoreV1().Pods(s.Name).List(s.T.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		s.T.Errorf("%d pods are left: %v", len(list.Items), err)
	}
}

// The ways in which a start fails on a real cluster.
func TestStartsFail(t *testing.T) {
	s := newSite(t, true)
	d := s.driver(t, func(o *kube.Options) { o.Patience = 2 * time.Second })
	good := s.template()
	// An image that is not there, and one that has no name.
	missing := good
	repository, _, _ := strings.Cut(good.Image, "@")
	missing.Image = repository + "@sha256:" + strings.Repeat("0", 64)
	s.fails(t, d, missing, api.NoCapacity, "image_pull", 40*time.Second, missing.Image)
	missing.Image = "No Image"
	s.fails(t, d, missing, api.NoCapacity, "image_pull", 40*time.Second, "InvalidImageName", missing.Image)
	// An image without Python: the runner says so.
	bare := good
	bare.Image = s.Image("probe")
	s.fails(t, d, bare, api.NoCapacity, "container_start", 30*time.Second, "python3")
	// No node has so much memory.
	huge := good
	huge.Limits.MemoryBytes = 1 << 50
	s.fails(t, d, huge, api.NoCapacity, "unschedulable", 10*time.Second, "Insufficient memory")
	// A quota of nothing, in the API server's words.
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
	}}
	if _, err := s.Kube.CoreV1().ResourceQuotas(s.Name).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the quota is known", func(ctx context.Context) error {
		q, err := s.Kube.CoreV1().ResourceQuotas(s.Name).Get(ctx, "none", metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			err = errors.New("it has no status")
		}
		return err
	})
	s.fails(t, d, good, api.NoCapacity, "refused", 5*time.Second, "exceeded quota")
}

// Without NetworkPolicies nothing is started: the error says what to do.
func TestOpenNetwork(t *testing.T) {
	s := newSite(t, false)
	d := s.driver(t, func(o *kube.Options) { o.ProofWithin = time.Second })
	s.fails(t, d, s.template(), api.Internal, "network_open", 30*time.Second, "CNI", "networkProof", "10.96.0.1:443")
	// Unless the operator takes it on trust.
	trusting := s.driver(t, func(o *kube.Options) { o.NoNetworkProof = true })
	box, err := trusting.Start(t.Context(), s.template())
	if err != nil {
		t.Fatal(err)
	}
	if err := trusting.Destroy(t.Context(), box.ID()); err != nil {
		t.Error(err)
	}
}

// What admission adds is found, named, and refused.
func TestMutatedPods(t *testing.T) {
	s := newSite(t, true)
	d := s.driver(t, nil)
	f := func(expression string, words ...string) {
		t.Helper()
		remove := s.mutate(t, expression)
		s.fails(t, d, s.template(), api.Internal, "pod_mutated", 10*time.Second, words...)
		remove()
	}
	// A variable and a container, as a service mesh does; Pod Security has let both in.
	f(`Object{spec: Object.spec{containers: [Object.spec.containers{name: "sandbox", env: [Object.spec.containers.env{name: "AWS_ROLE_ARN", value: "x"}]}]}}`,
		"spec.containers[sandbox].env[AWS_ROLE_ARN] was added")
	f(`Object{spec: Object.spec{volumes: [Object.spec.volumes{name: "extra", emptyDir: Object.spec.volumes.emptyDir{}}]}}`,
		"spec.volumes[extra] was added")
	f(`Object{metadata: Object.metadata{labels: {"code-sandbox.dev/kind": "other"}}}`, "metadata.labels[code-sandbox.dev/kind] was changed")
}

// mutate makes the cluster change every pod of the namespace; it returns once
// it does.
func (s *site) mutate(t *testing.T, expression string) (remove func()) {
	t.Helper()
	name := "mutate-" + s.Name
	rules := []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}}}
	admission := s.Kube.AdmissionregistrationV1()
	_, err := admission.MutatingAdmissionPolicies().Create(t.Context(), &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints:   &admissionv1.MatchResources{ResourceRules: rules},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: expression},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admission.MutatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name, MatchResources: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Name}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	plain := s.Pod("plain", "probe", "sleep")
	plain.Spec.Containers[0].Name = "sandbox"
	s.Eventually("pods are changed", func(ctx context.Context) error {
		made, err := s.Kube.CoreV1().Pods(s.Name).Create(ctx, plain, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && len(made.Spec.Volumes) == 0 && len(made.Spec.Containers[0].Env) == 0 && made.Labels[kube.LabelKind] == "" {
			err = errors.New("it is as it was")
		}
		return err
	})
	return func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(admission.MutatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}),
			admission.MutatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
		s.Eventually("pods are left as they are", func(ctx context.Context) error {
			made, err := s.Kube.CoreV1().Pods(s.Name).Create(ctx, plain, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil && (len(made.Spec.Volumes) > 0 || len(made.Spec.Containers[0].Env) > 0 || made.Labels[kube.LabelKind] != "") {
				err = errors.New("they are changed still")
			}
			return err
		})
	}
}
