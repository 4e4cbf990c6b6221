package charts

import (
	"reflect"
	"strings"
	"testing"
)

// Where agents live the pool may make copies and take them away; of what else is
// there it reads the network's policies, which may open a copy.
func TestRightsBesideAgents(t *testing.T) {
	var got []string
	for _, o := range render(t, "agent-namespace", "{}") {
		switch o.kind() {
		case "Role":
			for _, r := range o.at("rules").([]any) {
				got = append(got, o.at("metadata", "namespace").(string)+" "+rule(r.(map[string]any)))
			}
		case "RoleBinding":
			want := []any{map[string]any{"kind": "ServiceAccount", "name": "code-sandbox-pool", "namespace": "code-sandbox"}}
			if !reflect.DeepEqual(o.at("subjects"), want) || o.at("roleRef", "kind") != "Role" {
				t.Errorf("the rights are bound to %v", o.at("subjects"))
			}
		case "ClusterRole", "ClusterRoleBinding":
			t.Errorf("%s %s reaches beyond the namespace", o.kind(), o.name())
		}
	}
	want := []string{"system /pods: create,delete", "system networking.k8s.io/networkpolicies: get,list,watch"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the rights are %q, not %q", got, want)
	}
}

// Copies have no network but lookups, and answer nobody but the pool.
func TestNetworkOfCopies(t *testing.T) {
	all := render(t, "agent-namespace", "{}")
	spec := object(find(t, all, "NetworkPolicy", "code-sandbox-copies").at("spec").(map[string]any))
	copies := []any{map[string]any{"key": "code-sandbox.dev/kind", "operator": "Exists"}}
	if !reflect.DeepEqual(spec.at("podSelector", "matchExpressions"), copies) || !reflect.DeepEqual(spec.at("policyTypes"), []any{"Ingress", "Egress"}) ||
		spec.at("egress") != nil {
		t.Errorf("the policy is %v", spec)
	}
	in := spec.at("ingress").([]any)
	rule := object(in[0].(map[string]any))
	from := rule.at("from").([]any)
	pool := object(from[0].(map[string]any))
	if len(in) != 1 || len(from) != 1 || pool.at("namespaceSelector", "matchLabels", "kubernetes.io/metadata.name") != "code-sandbox" ||
		pool.at("podSelector", "matchLabels", "app.kubernetes.io/component") != "pool" ||
		!reflect.DeepEqual(rule.at("ports"), []any{map[string]any{"port": float64(8901), "protocol": "TCP"}}) {
		t.Errorf("the way in is %v", in)
	}
	out := object(find(t, all, "NetworkPolicy", "code-sandbox-copies-dns").at("spec").(map[string]any))
	rules := out.at("egress").([]any)
	to := object(rules[0].(map[string]any)).at("to").([]any)
	if len(rules) != 1 || len(to) != 1 || out.at("podSelector", "matchLabels", "code-sandbox.dev/dns") != "relay" ||
		object(to[0].(map[string]any)).at("podSelector", "matchLabels", "k8s-app") != "kube-dns" {
		t.Errorf("the way out is %v", rules)
	}
	for _, o := range all {
		if o.kind() == "NetworkPolicy" && o.name() != "code-sandbox-copies" && o.name() != "code-sandbox-copies-dns" {
			t.Errorf("there is a policy more, %s", o.name())
		}
	}
}

// Where the resolver is no pod but on the nodes, copies reach it, and so do
// agents that are let out to nothing else.
func TestResolverOnTheNode(t *testing.T) {
	all := render(t, "agent-namespace", `network: {egressToPool: true, dns: {addresses: ["169.254.20.10/32", "fd00::10/128"], ports: [53, 5353]}}`)
	f := func(policy string, rule int) {
		t.Helper()
		lookups := object(find(t, all, "NetworkPolicy", policy).at("spec", "egress").([]any)[rule].(map[string]any))
		to := lookups.at("to").([]any)
		if len(to) != 3 || object(to[1].(map[string]any)).at("ipBlock", "cidr") != "169.254.20.10/32" ||
			object(to[2].(map[string]any)).at("ipBlock", "cidr") != "fd00::10/128" || len(lookups.at("ports").([]any)) != 4 {
			t.Errorf("%s lets lookups out as %v", policy, lookups)
		}
	}
	f("code-sandbox-copies-dns", 0)
	f("code-sandbox-agents-to-pool", 1)
}

// What a namespace says of tool calls is what the injector reads there.
func TestPolicyOfANamespace(t *testing.T) {
	f := func(values string, want map[string]any) {
		t.Helper()
		got := find(t, render(t, "agent-namespace", values), "ConfigMap", "code-sandbox-policy").at("data")
		if want == nil && got != nil || want != nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: it says %v", values, got)
		}
	}
	// Nothing said.
	f("{}", nil)
	// All of it.
	f(`policy: {tools: audit, requireHook: true, toolsInclude: [a, "b*"], toolsExclude: [c], toolsContext: inline, toolFunctions: ["m:*"],
toolEnvAllow: [TZ, "!KEY"], toolTimeoutSeconds: 20, toolMemory: 256Mi, allowResults: [Command], firstParty: [ours], grants: ["s=a.example:443,b.example", "t=c.example"]}`,
		map[string]any{"tools": "audit", "require-hook": "true", "tools-include": "a,b*", "tools-exclude": "c", "tools-context": "inline",
			"tool-functions": "m:*", "tool-env-allow": "TZ,!KEY", "tool-timeout": "20", "tool-memory": "256Mi", "allow-results": "Command",
			"first-party": "ours", "grants": "s=a.example:443,b.example t=c.example"})
}

// What grants may open is what the values say: nothing private, unless it is named.
func TestEgressOfThePool(t *testing.T) {
	f := func(values string, want ...any) {
		t.Helper()
		pool := find(t, render(t, "code-sandbox", values), "Deployment", "code-sandbox-pool")
		container := object(pool.at("spec", "template", "spec", "containers").([]any)[0].(map[string]any))
		var got []any
		for _, arg := range container.at("args").([]any) {
			if strings.HasPrefix(arg.(string), "--egress") {
				got = append(got, arg)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the pool is told %v", values, got)
		}
	}
	f("{}", "--egress=on", "--egress-private=", "--egress-deny=")
	f("egress: {enabled: false}", "--egress=off", "--egress-private=", "--egress-deny=")
	f(`egress: {private: ["10.1.0.0/16", "fd00:1::/32"], deny: ["203.0.113.0/24"]}`,
		"--egress=on", "--egress-private=10.1.0.0/16,fd00:1::/32", "--egress-deny=203.0.113.0/24")
}
