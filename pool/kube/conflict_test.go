package kube

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A policy of the agents' namespace that opens more than lookups to copies is
// found; those that close, or are about others, are none of our business.
func TestConflict(t *testing.T) {
	template := pool.Template{DNS: DNSRelay, Copy: &wire.Copy{}}
	f := func(spec, want string) {
		t.Helper()
		p := &networkingv1.NetworkPolicy{}
		p.Name = "theirs"
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		with, opens := conflict([]*networkingv1.NetworkPolicy{p}, labelsFor(PodConfig{Labels: map[string]string{"team": "ml"}}, template, "r"))
		if want == "" && with != nil || want != "" && (with != p || !strings.Contains(opens, want)) {
			t.Errorf("%s: it opens %q, want %q", spec, opens, want)
		}
	}
	// Nobody may do anything.
	f(`{podSelector: {}, policyTypes: [Ingress, Egress]}`, "")
	// All may do all: the namespace's, its own pods', the internet's.
	f(`{podSelector: {}, policyTypes: [Egress], egress: [{}]}`, "connections from them")
	f(`{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {}}]}]}`, "connections to them")
	f(`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}], ports: [{port: 443}]}]}`, "connections from them")
	// By a label that the operator gave to sandboxes.
	f(`{podSelector: {matchLabels: {team: ml}}, egress: [{}]}`, "connections from them")
	f(`{podSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}, egress: [{}]}`, "connections from them")
	// About others.
	f(`{podSelector: {matchLabels: {app: agent}}, egress: [{}]}`, "")
	f(`{podSelector: {matchExpressions: [{key: code-sandbox.dev/copy, operator: DoesNotExist}]}, egress: [{}]}`, "")
	// Written for sandboxes.
	f(`{podSelector: {matchLabels: {code-sandbox.dev/copy: "true"}}, ingress: [{ports: [{port: 8901}]}]}`, "")
	f(`{podSelector: {matchExpressions: [{key: code-sandbox.dev/kind, operator: Exists}]}, ingress: [{ports: [{port: 8901}]}]}`, "")
	// It says that it is not about python, and so about copies, by accident.
	f(`{podSelector: {matchExpressions: [{key: code-sandbox.dev/kind, operator: NotIn, values: [python]}]}, egress: [{}]}`, "connections from them")
	// Lookups at the cluster's resolver, as many namespaces allow them to all.
	dns := `{podSelector: {}, egress: [{to: [{namespaceSelector: {}, podSelector: {matchLabels: {k8s-app: kube-dns}}}], ports: [{port: 53, protocol: UDP}, {port: 53}]}]}`
	f(dns, "")
	f(`{podSelector: {}, egress: [{ports: [{port: 53}]}]}`, "connections from them")
	f(`{podSelector: {}, egress: [{to: [{namespaceSelector: {}}], ports: [{port: 50, endPort: 60}]}]}`, "connections from them")
	f(`{podSelector: {}, egress: [{to: [{namespaceSelector: {}}], ports: [{port: 53}, {port: 80}]}]}`, "connections from them")
	f(`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 8.8.8.8/32}}], ports: [{port: 53}]}]}`, "connections from them")
	// Where copies may not look up.
	template.DNS = DNSNone
	f(dns, "connections from them")
	// A selector that nobody can read.
	f(`{podSelector: {matchExpressions: [{key: a, operator: Near}]}}`, "cannot be read")
}
