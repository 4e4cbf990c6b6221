//go:build e2e

package inject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

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
	steps := "code-sandbox-hook /code-sandbox, code-sandbox-hook " + account
	want := map[string]string{"code-sandbox-hook": steps, "code-sandbox-image-0": steps, "code-sandbox-sidecar": "code-sandbox-token " + account}
	for _, c := range got.Spec.InitContainers {
		if m := strings.Join(mounts(c), ", "); m != want[c.Name] {
			t.Errorf("the mounts of %s are %q, not %q", c.Name, m, want[c.Name])
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("there is no container of %v", want)
	}
	m := mounts(got.Spec.Containers[0])
	m = slices.DeleteFunc(m, func(one string) bool { return one == "code-sandbox-hook /code-sandbox" })
	if len(m) != 1 || !strings.HasPrefix(m[0], "kube-api-access-") {
		t.Errorf("the agent's mounts beside the hook are %q", m)
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
		pod.Annotations = map[string]string{"code-sandbox.dev/tools": "strict"}
		_, err := s.Kube.CoreV1().Pods(s.Name).Create(t.Context(), pod, metav1.CreateOptions{})
		refused(t, err, `code-sandbox.dev/tools is "strict"; it must be enforce or audit or off`)
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
