package kube

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// NetworkConfig says between whom sandboxes may have traffic at all.
type NetworkConfig struct {
	// Namespace is where sandboxes live, PoolNamespace where the pool does.
	Namespace, PoolNamespace string
	// PoolLabels select the pool's pods.
	PoolLabels map[string]string
	// DNSNamespace and DNSLabels select the cluster's resolvers; DNSAddresses
	// (CIDR) are those that are no pods, such as a node-local one.
	DNSNamespace string
	DNSLabels    map[string]string
	DNSAddresses []string
	// DNSPorts are those that the resolvers listen on in their pods.
	DNSPorts []int32
}

// NetworkPolicies are the policies of the sandboxes' namespace. They add up to:
// nothing but the pool to the runner, and lookups from those that may.
func NetworkPolicies(c NetworkConfig) []*networkingv1.NetworkPolicy {
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	// Of everything in the namespace: what has no label of ours is no sandbox,
	// and has no business here.
	deny := policy(c, "default-deny", metav1.LabelSelector{})
	deny.Spec.PolicyTypes = both

	sandboxes := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: LabelKind, Operator: metav1.LabelSelectorOpExists},
	}}
	ingress := policy(c, "pool-to-runner", sandboxes)
	ingress.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	ingress.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
		From:  []networkingv1.NetworkPolicyPeer{peer(c.PoolNamespace, c.PoolLabels)},
		Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, wire.RunnerPort)},
	}}

	lookups := policy(c, "dns", metav1.LabelSelector{MatchLabels: map[string]string{LabelDNS: DNSRelay}})
	lookups.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	lookups.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{dnsRule(c)}
	return []*networkingv1.NetworkPolicy{deny, ingress, lookups}
}

func dnsRule(c NetworkConfig) networkingv1.NetworkPolicyEgressRule {
	rule := networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{peer(c.DNSNamespace, c.DNSLabels)}}
	for _, cidr := range c.DNSAddresses {
		rule.To = append(rule.To, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	ports := c.DNSPorts
	if len(ports) == 0 {
		ports = []int32{53}
	}
	for _, n := range ports {
		rule.Ports = append(rule.Ports, port(corev1.ProtocolUDP, n), port(corev1.ProtocolTCP, n))
	}
	return rule
}

func policy(c NetworkConfig, name string, of metav1.LabelSelector) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: "code-sandbox-" + name, Namespace: c.Namespace},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: of},
	}
}

func peer(namespace string, labels map[string]string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: labels},
	}
}

func port(protocol corev1.Protocol, n int32) networkingv1.NetworkPolicyPort {
	number := intstr.FromInt32(n)
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &number}
}
