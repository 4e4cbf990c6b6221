//go:build e2e

package smoke

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/code-sandbox/code-sandbox/test/cluster"
	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// dnsOnly closes everything to and from the pods it selects, but questions to
// the cluster's DNS.
func dnsOnly(labels map[string]string) *networkingv1.NetworkPolicy {
	udp, tcp, port := corev1.ProtocolUDP, corev1.ProtocolTCP, intstr.FromInt32(53)
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "dns-only"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: labels},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{
				To: []networkingv1.NetworkPolicyPeer{{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "kube-system"}},
					PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}},
				}},
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: &udp, Port: &port}, {Protocol: &tcp, Port: &port}},
			}},
		},
	}
}

// A policy closes a pod to everything but DNS, whatever runs it. An open pod
// reaches the same targets: without that, a broken network would pass.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	jailed := map[string]string{"jailed": "yes"}
	if _, err := s.Kube.NetworkingV1().NetworkPolicies(s.Name).Create(t.Context(), dnsOnly(jailed), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gvisor, own := "gvisor", false
	s.Create(s.Pod("peer", "probe", "serve", ":8000"))
	for name, change := range map[string]func(*corev1.PodSpec){
		"plain":  func(*corev1.PodSpec) {},
		"users":  func(p *corev1.PodSpec) { p.HostUsers = &own },
		"gvisor": func(p *corev1.PodSpec) { p.RuntimeClassName = &gvisor },
	} {
		open := s.Pod("open-"+name, "probe", "serve", ":8000")
		change(&open.Spec)
		closed := open.DeepCopy()
		closed.Name, closed.Labels = "jailed-"+name, jailed
		s.Create(open, closed)
	}
	targets := []string{
		cluster.NodeIP + ":6443", cluster.NodeIP + ":10250", cluster.APIIP + ":443", cluster.WorldIP + ":80", cluster.MetaIP + ":80",
		s.WaitReady("peer").Status.PodIP + ":8000", "kubernetes.default.svc.cluster.local", "world.example",
	}
	names := []string{cluster.APIIP, cluster.WorldIP}
	reached := append(slices.Repeat([]string{"open"}, 6), names...)
	shut := append(slices.Repeat([]string{"closed"}, 6), names...)
	for _, kind := range []string{"plain", "users", "gvisor"} {
		reaches(s, "open-"+kind, targets, reached)
		reaches(s, "jailed-"+kind, targets, shut)
	}
	entry(s, "open-plain", true)
	entry(s, "jailed-plain", false)
}

// reaches waits until the pod reaches what is wanted and nothing else: the
// policy of a fresh pod comes into force some milliseconds after its start.
func reaches(s *e2e.Space, pod string, targets, want []string) {
	s.T.Helper()
	s.WaitReady(pod)
	s.Eventually("reach of "+pod, func(context.Context) error {
		out, err := s.Exec(pod, append([]string{"/usr/local/bin/probe", "dial"}, targets...)...)
		if err != nil {
			return err
		}
		var got []string
		for line := range strings.Lines(out) {
			got = append(got, strings.Fields(line)[1])
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s: to %q it is %q, want %q", pod, targets, got, want)
		}
		return nil
	})
}

// entry connects to the pod from outside, as a client of the cluster would.
// The node itself may always reach its pods, so another pod is asked.
func entry(s *e2e.Space, pod string, open bool) {
	s.T.Helper()
	target := s.Get(pod).Status.PodIP + ":8000"
	out := strings.TrimSpace(s.MustExec("peer", "/usr/local/bin/probe", "dial", target))
	if want := target + map[bool]string{true: " open", false: " closed"}[open]; out != want {
		s.T.Errorf("%s from another pod: %q, want %q", pod, out, want)
	}
}

// The machine reaches pods, and services by their names, through the proxy;
// what a cluster's name server does not know it does not.
func TestReachFromTheMachine(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	s.Create(s.Pod("served", "probe", "serve", ":8000"))
	ip := s.WaitReady("served").Status.PodIP
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "served"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "served"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8000)}}}}
	if _, err := s.Kube.CoreV1().Services(s.Name).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	host := "served." + s.Name + ".svc.cluster.local"
	for _, url := range []string{"http://" + ip + ":8000/", "http://" + host + "/", "http://world.example/"} {
		s.Eventually(url+" answers", func(ctx context.Context) error { return fetch(ctx, s, url) })
	}
	if err := fetch(t.Context(), s, "http://nobody."+s.Name+".svc.cluster.local/"); err == nil {
		t.Error("a service that does not exist answers")
	}
}

func fetch(ctx context.Context, s *e2e.Space, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := s.HTTP().Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %q: %w", answer.Status, body, err)
	}
	return nil
}
