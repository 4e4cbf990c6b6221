//go:build e2e

package inject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// The sidecar has the token for the pool and no other, also where the agent has
// its service account's; the agent has not the sidecar's.
func (p *platform) testRights(t *testing.T) {
	s := p.agents(t)
	pod := agent(s, "agent", "agent-python")
	yes := true
	pod.Spec.AutomountServiceAccountToken = &yes
	s.Create(pod)
	answered(s, "agent")
	got := s.Get("agent")
	const account = "/var/run/secrets/kubernetes.io/serviceaccount"
	mounts := func(c corev1.Container) (found []string) {
		for _, m := range c.VolumeMounts {
			found = append(found, m.Name+" "+m.MountPath)
		}
		return found
	}
	if m := mounts(got.Spec.InitContainers[0]); len(m) != 1 || m[0] != "code-sandbox-token "+account {
		t.Errorf("the sidecar's mounts are %q", m)
	}
	if m := mounts(got.Spec.Containers[0]); len(m) != 1 || !strings.HasPrefix(m[0], "kube-api-access-") {
		t.Errorf("the agent's mounts are %q", m)
	}
}

// What is not injected is told where people look, in the same word.
func (p *platform) testSkips(t *testing.T) {
	enrolled := e2e.Labels(map[string]string{"code-sandbox.dev/enabled": "true"})
	f := func(name, says string, change func(*corev1.Pod)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := e2e.NewSpace(t, enrolled)
			pod := s.Pod("agent", "probe", "sleep")
			change(pod)
			s.Create(pod)
			if injected(s.Get("agent")) {
				t.Error("it has a sidecar")
			}
			s.Eventually("an Event says why", func(ctx context.Context) error {
				events, err := s.Kube.CoreV1().Events(s.Name).List(ctx, metav1.ListOptions{FieldSelector: "reason=SandboxSidecarSkipped"})
				if err != nil {
					return err
				}
				for _, e := range events.Items {
					if strings.HasPrefix(e.Message, says+": ") && e.InvolvedObject.Name == "agent" {
						return nil
					}
				}
				return fmt.Errorf("the Events are %s", eventsOf(events.Items))
			})
		})
	}
	// The pod's own wish, its node's network, a port of ours.
	f("OptedOut", "opted_out", func(p *corev1.Pod) { p.Annotations = map[string]string{"code-sandbox.dev/inject": "false"} })
	f("HostNetwork", "host_network", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	f("PortTaken", "port_taken", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8900}} })
	// A mistake is refused in words, and so are those of a policy.
	t.Run("Mistake", func(t *testing.T) {
		t.Parallel()
		s := e2e.NewSpace(t, enrolled)
		pod := s.Pod("agent", "probe", "sleep")
		pod.Annotations = map[string]string{"code-sandbox.dev/mode": "strict"}
		_, err := s.Kube.CoreV1().Pods(s.Name).Create(t.Context(), pod, metav1.CreateOptions{})
		refused(t, err, `code-sandbox.dev/mode is "strict"; it must be enforce or audit or off`)
	})
	// A namespace that is not enrolled is not touched.
	t.Run("NotEnrolled", func(t *testing.T) {
		t.Parallel()
		s := e2e.NewSpace(t)
		s.Create(s.Pod("agent", "probe", "sleep"))
		if injected(s.Get("agent")) {
			t.Error("it has a sidecar")
		}
	})
}

func eventsOf(events []corev1.Event) (said []string) {
	for _, e := range events {
		said = append(said, e.InvolvedObject.Name+" "+e.Message)
	}
	return said
}

func refused(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("it is not refused with %q: %v", says, err)
	}
}

// Only the pool makes sandboxes, and it makes nothing else.
func (p *platform) testAdmissionPolicy(t *testing.T) {
	s := p.agents(t)
	create := func(k kubernetes.Interface, in string, pod *corev1.Pod) error {
		_, err := k.CoreV1().Pods(in).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	// The administrator: a pod with a label of ours, or where sandboxes live.
	pod := s.Pod("a", "probe", "sleep")
	pod.Labels["code-sandbox.dev/kind"] = "python"
	refused(t, create(s.Kube, s.Name, pod), "only the pool of Code Sandbox may make")
	refused(t, create(s.Kube, p.runs.Name, s.Pod("a", "probe", "sleep")), "only the pool of Code Sandbox may make")
	// A label put on later, and the policy of an agent changed.
	s.Create(s.Pod("agent", "probe", "sleep"))
	for change, says := range map[string]string{
		`{"metadata":{"labels":{"code-sandbox.dev/kind":"python"}}}`:                    "cannot be changed on a pod",
		`{"metadata":{"annotations":{"code-sandbox.dev/policy":"{\"mode\":\"off\"}"}}}`: "written at admission and cannot be changed",
	} {
		_, err := s.Kube.CoreV1().Pods(s.Name).Patch(t.Context(), "agent", types.MergePatchType, []byte(change), metav1.PatchOptions{})
		refused(t, err, says)
	}
	// An agent's other labels and annotations are its own.
	_, err := s.Kube.CoreV1().Pods(s.Name).Patch(t.Context(), "agent", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Error(err)
	}
	p.policyBindsThePool(t, create)
}

// policyBindsThePool tries what somebody with the pool's rights might.
func (p *platform) policyBindsThePool(t *testing.T, create func(kubernetes.Interface, string, *corev1.Pod) error) {
	t.Helper()
	config := rest.CopyConfig(p.system.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + p.system.Name + ":code-sandbox-pool"}
	pool, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	f := func(says string, change func(*corev1.Pod)) {
		t.Helper()
		pod := p.runs.Pod("a", "probe", "sleep")
		pod.Labels["code-sandbox.dev/kind"] = "python"
		change(pod)
		switch err := create(pool, p.runs.Name, pod); {
		case says == "" && err != nil:
			t.Errorf("a sandbox is refused: %v", err)
		case says != "":
			refused(t, err, says)
		}
	}
	// As it is.
	f("", func(*corev1.Pod) {})
	// No sandbox, a token, a volume of the cluster's, a variable from a secret, a second life.
	f("makes sandboxes and no other pods", func(p *corev1.Pod) {
		delete(p.Labels, "code-sandbox.dev/kind")
		p.Labels["code-sandbox.dev/dns"] = "none"
	})
	yes := true
	f("without a token", func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &yes })
	f("no volumes but empty ones", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
	})
	f("take no variable from elsewhere", func(p *corev1.Pod) {
		p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	})
	f("runs once", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways })
	// Elsewhere it may make nothing at all, and it reads no secret but one.
	pod := p.runs.Pod("a", "probe", "sleep")
	pod.Labels["code-sandbox.dev/kind"] = "python"
	if err := create(pool, "kube-system", pod); !apierrors.IsForbidden(err) {
		t.Errorf("the pool may make pods in kube-system: %v", err)
	}
	if _, err := pool.CoreV1().Secrets(p.system.Name).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the pool may list secrets: %v", err)
	}
}

// P11, in part: somebody takes the authority from the webhook's configuration,
// and it is there again; injection goes on.
func (p *platform) testAuthority(t *testing.T) {
	s := p.agents(t)
	hooks := s.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	drop, err := json.Marshal([]map[string]string{{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hooks.Patch(t.Context(), "code-sandbox", types.JSONPatchType, drop, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("a pod is injected", func(ctx context.Context) error {
		w, err := hooks.Get(ctx, "code-sandbox", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(w.Webhooks[0].ClientConfig.CABundle) == 0 {
			return errors.New("the authority is not there again")
		}
		pod, err := s.Kube.CoreV1().Pods(s.Name).Create(ctx, s.Pod("a", "probe", "sleep"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if !injected(pod) {
			return errors.New("it is not")
		}
		return nil
	})
}

// Nobody of ours is an administrator, in any role that the chart makes.
func noAdministrator(t *testing.T, k kubernetes.Interface, releaseName string) {
	t.Helper()
	roles, err := k.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + releaseName})
	if err != nil {
		t.Fatal(err)
	}
	if len(roles.Items) == 0 {
		t.Error("the chart has made no roles")
	}
	for _, r := range roles.Items {
		for _, rule := range r.Rules {
			if everything(rule) {
				t.Errorf("%s may do everything: %v", r.Name, rule)
			}
		}
	}
}

func everything(rule rbacv1.PolicyRule) bool {
	for _, list := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
		for _, word := range list {
			if word == "*" {
				return true
			}
		}
	}
	return false
}
