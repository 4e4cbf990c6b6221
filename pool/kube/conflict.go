package kube

import (
	"cmp"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// conflict names the first policy that opens a network to pods with these labels
// and was not written for sandboxes; nil when there is none. Policies add up: one
// that somebody made for all pods of a namespace opens what ours close.
func conflict(policies []*networkingv1.NetworkPolicy, of labels.Set) (with *networkingv1.NetworkPolicy, opens string) {
	policies = slices.Clone(policies)
	slices.SortFunc(policies, func(a, b *networkingv1.NetworkPolicy) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range policies {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		switch {
		case err != nil:
			return p, "what cannot be told, for its podSelector cannot be read"
		case !selector.Matches(of), forSandboxes(&p.Spec.PodSelector):
			continue
		}
		if opens := opening(p, of[LabelDNS] == DNSRelay); opens != "" {
			return p, opens
		}
	}
	return nil, ""
}

// forSandboxes says whether a selector asks for a label that nothing but
// sandboxes has: who wrote it meant them.
func forSandboxes(s *metav1.LabelSelector) bool {
	ours := []string{LabelKind, LabelCopy, LabelDNS}
	for key := range s.MatchLabels {
		if slices.Contains(ours, key) {
			return true
		}
	}
	return slices.ContainsFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return slices.Contains(ours, r.Key) && (r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpExists)
	})
}

// opening says what a policy lets through beyond lookups where those may be made.
func opening(p *networkingv1.NetworkPolicy, dns bool) string {
	if n := len(p.Spec.Ingress); n > 0 {
		return fmt.Sprintf("connections to them (%d ingress rules)", n)
	}
	for i, rule := range p.Spec.Egress {
		if !dns || !isLookup(rule) {
			return fmt.Sprintf("connections from them (egress rule %d)", i+1)
		}
	}
	return ""
}

// isLookup says whether a rule opens nothing but the resolver's port of the
// cluster's own pods.
func isLookup(r networkingv1.NetworkPolicyEgressRule) bool {
	if len(r.To) == 0 || len(r.Ports) == 0 {
		return false // everywhere, or every port
	}
	for _, to := range r.To {
		if to.IPBlock != nil {
			return false
		}
	}
	return !slices.ContainsFunc(r.Ports, func(p networkingv1.NetworkPolicyPort) bool {
		return p.EndPort != nil || p.Port == nil || p.Port.IntValue() != 53 && p.Port.StrVal != "dns" && p.Port.StrVal != "dns-tcp"
	})
}
