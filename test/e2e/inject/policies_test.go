//go:build e2e

package inject

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// tryCreate asks whether a pod would be let in.
func tryCreate(t *testing.T, k kubernetes.Interface, in string, pod *corev1.Pod) error {
	t.Helper()
	_, err := k.CoreV1().Pods(in).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// Only the pool makes sandboxes, and it makes nothing else; labels and
// annotations of ours stay what they were. test/charts has all that can be wrong
// with a pod; this is that the cluster asks.
func (p *platform) testAdmissionPolicy(t *testing.T) {
	p.policiesAreUnderstood(t)
	s := p.agents(t)
	// The administrator: a pod with a label of ours, or where sandboxes live.
	pod := s.Pod("a", "probe", "sleep")
	pod.Labels["code-sandbox.dev/kind"] = "python"
	refused(t, tryCreate(t, s.Kube, s.Name, pod), "only the pool of Code Sandbox may make")
	refused(t, tryCreate(t, s.Kube, p.runs.Name, s.Pod("a", "probe", "sleep")), "only the pool of Code Sandbox may make")
	// What only the injector writes, on a pod that it leaves alone: the injector
	// refuses it before the policy does.
	pod = s.Pod("a", "probe", "sleep")
	pod.Annotations = map[string]string{"code-sandbox.dev/inject": "false", "code-sandbox.dev/policy": "{}"}
	refused(t, tryCreate(t, s.Kube, s.Name, pod), "which the injector adds itself")
	s.Create(s.Pod("agent", "probe", "sleep"))
	p.contractStays(t, s)
	p.policyBindsThePool(t, s)
}

// policiesAreUnderstood sees that the cluster finds every word of the policies'
// expressions in its own types.
func (p *platform) policiesAreUnderstood(t *testing.T) {
	t.Helper()
	p.system.Eventually("the policies are checked", func(ctx context.Context) error {
		all, err := p.system.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + release})
		if err != nil {
			return err
		}
		if len(all.Items) != 4 {
			return fmt.Errorf("there are %d", len(all.Items))
		}
		for _, one := range all.Items {
			if one.Status.TypeChecking == nil {
				return fmt.Errorf("%s is not checked yet", one.Name)
			}
			if w := one.Status.TypeChecking.ExpressionWarnings; len(w) > 0 {
				return fmt.Errorf("%s: %v", one.Name, w)
			}
		}
		return nil
	})
}

// contractStays tries the ways there are to change labels and annotations of a
// pod that is there.
func (p *platform) contractStays(t *testing.T, s *e2e.Space) {
	t.Helper()
	pods := s.Kube.CoreV1().Pods(s.Name)
	for change, says := range map[string]string{
		`{"metadata":{"labels":{"code-sandbox.dev/kind":"python"}}}`:                     "cannot be changed on a pod",
		`{"metadata":{"annotations":{"code-sandbox.dev/policy":"{\"tools\":\"off\"}"}}}`: "cannot be changed on it; make the pod anew",
		`{"metadata":{"annotations":{"code-sandbox.dev/tools":"off"}}}`:                  "cannot be changed on it; make the pod anew",
	} {
		for _, sub := range [][]string{nil, {"status"}} {
			_, err := pods.Patch(t.Context(), "agent", types.MergePatchType, []byte(change), metav1.PatchOptions{}, sub...)
			refused(t, err, says)
		}
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Annotations: map[string]string{"code-sandbox.dev/policy": "{}"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node"},
	}
	refused(t, pods.Bind(t.Context(), binding, metav1.CreateOptions{}), "a Binding cannot give a pod")
	// An agent's other labels and annotations are its own.
	for _, sub := range [][]string{nil, {"status"}} {
		_, err := pods.Patch(t.Context(), "agent", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"}}}`), metav1.PatchOptions{}, sub...)
		if err != nil {
			t.Error(err)
		}
	}
}

// asThePool is somebody with the pool's token.
func (p *platform) asThePool(t *testing.T) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(p.system.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + p.system.Name + ":code-sandbox-pool"}
	pool, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// sandbox is a pod as the pool makes them.
func (p *platform) sandbox() *corev1.Pod {
	pod := p.runs.Pod("a", "probe", "sleep")
	pod.Labels["code-sandbox.dev/kind"] = "python"
	deadline := int64(60)
	pod.Spec.ActiveDeadlineSeconds, pod.Spec.ServiceAccountName = &deadline, "code-sandbox-run"
	pod.Spec.Containers[0].Resources.Limits["ephemeral-storage"] = resource.MustParse("1Mi")
	return pod
}

// policyBindsThePool tries what somebody with the pool's rights might.
func (p *platform) policyBindsThePool(t *testing.T, agents *e2e.Space) {
	t.Helper()
	pool := p.asThePool(t)
	f := func(says string, change func(*corev1.Pod)) {
		t.Helper()
		pod := p.sandbox()
		change(pod)
		switch err := tryCreate(t, pool, p.runs.Name, pod); {
		case says == "" && err != nil:
			t.Errorf("a sandbox is refused: %v", err)
		case says != "":
			refused(t, err, says)
		}
	}
	// As it is.
	f("", func(*corev1.Pod) {})
	// No sandbox, a token, an account, a volume of the cluster's, a variable from a secret, a second life.
	f("and no other pods", func(p *corev1.Pod) {
		delete(p.Labels, "code-sandbox.dev/kind")
		p.Labels["code-sandbox.dev/dns"] = "none"
	})
	yes := true
	f("without its token", func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &yes })
	f("as the account code-sandbox-run", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" })
	f("no volumes but empty ones", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
	})
	f("take no variable from elsewhere", func(p *corev1.Pod) {
		p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	})
	f("runs once", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways })
	// Where agents live it deletes no pod but copies.
	if out, err := agents.Helm(t.Context(), "install", "agents", e2e.Chart("agent-namespace"), "--set", "platformNamespace="+p.system.Name); err != nil {
		t.Fatalf("cannot install: %v: %s", err, out)
	}
	refused(t, pool.CoreV1().Pods(agents.Name).Delete(t.Context(), "agent", metav1.DeleteOptions{}), "deletes its sandboxes and its copies of agents")
	// Elsewhere it may make nothing at all, and it reads no secret but one.
	if err := tryCreate(t, pool, "kube-system", p.sandbox()); !apierrors.IsForbidden(err) {
		t.Errorf("the pool may make pods in kube-system: %v", err)
	}
	if _, err := pool.CoreV1().Secrets(p.system.Name).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the pool may list secrets: %v", err)
	}
}
