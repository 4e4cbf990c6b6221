package charts

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// podsOf are the pod specifications that a chart makes, by the object's name.
func podsOf(all []object) map[string]object {
	pods := map[string]object{}
	for _, o := range all {
		spec := o.at("spec", "template", "spec")
		if o.kind() == "Pod" {
			spec = o.at("spec")
		}
		if m, ok := spec.(map[string]any); ok {
			pods[o.kind()+"/"+o.name()] = m
		}
	}
	return pods
}

// Every pod of the charts is as the policy "restricted" of Pod Security wants
// it, with a root that cannot be written to, and limits.
func TestPodsAreRestricted(t *testing.T) {
	f := func(pods map[string]object, want int) {
		t.Helper()
		if len(pods) != want {
			t.Errorf("there are %d kinds of pods", len(pods))
		}
		for name, pod := range pods {
			isRestricted(t, name, pod)
		}
	}
	// Pool, injector, the end of the pool, and the test.
	f(podsOf(render(t, "code-sandbox", everything)), 4)
	// The test, as an agent.
	f(podsOf(render(t, "code-sandbox", "{injector: {enabled: false}, test: {namespace: agents}}")), 3)
	f(podsOf(render(t, "agent-namespace", "test: {image: {ref: python}}")), 1)
	// Doctor beside it.
	f(podsOf(render(t, "agent-namespace", "{test: {image: {ref: python}}, doctor: {image: {ref: product}}}")), 2)
}

func isRestricted(t *testing.T, name string, pod object) {
	t.Helper()
	if pod.at("securityContext", "runAsNonRoot") != true || pod.at("securityContext", "seccompProfile", "type") != "RuntimeDefault" ||
		pod.at("enableServiceLinks") != false {
		t.Errorf("%s: the pod's security context is %v", name, pod.at("securityContext"))
	}
	for _, key := range []string{"hostNetwork", "hostPID", "hostIPC", "volumes"} {
		if pod.at(key) != nil {
			t.Errorf("%s has %s", name, key)
		}
	}
	for _, c := range pod.at("containers").([]any) {
		c := object(c.(map[string]any))
		s := object(c.at("securityContext").(map[string]any))
		if s.at("allowPrivilegeEscalation") != false || s.at("readOnlyRootFilesystem") != true ||
			!reflect.DeepEqual(s.at("capabilities", "drop"), []any{"ALL"}) || s.at("capabilities", "add") != nil {
			t.Errorf("%s: the container's security context is %v", name, s)
		}
		for _, path := range [][]string{{"requests", "cpu"}, {"requests", "memory"}, {"limits", "cpu"}, {"limits", "memory"}} {
			if c.at("resources", path[0], path[1]) == nil {
				t.Errorf("%s has no %v", name, path)
			}
		}
	}
}

// Only those pods have a token of their service account that talk to the API
// server, and no service account gives one out by itself.
func TestTokens(t *testing.T) {
	all := render(t, "code-sandbox", everything)
	want := map[string]any{"Deployment/code-sandbox-pool": true, "Deployment/code-sandbox-injector": true, "Job/code-sandbox-leave": true,
		"Pod/code-sandbox-test": false}
	for name, pod := range podsOf(all) {
		if pod.at("automountServiceAccountToken") != want[name] {
			t.Errorf("%s: automountServiceAccountToken is %v", name, pod.at("automountServiceAccountToken"))
		}
	}
	accounts := 0
	for _, o := range all {
		if o.kind() == "ServiceAccount" {
			if accounts++; o.at("automountServiceAccountToken") != false {
				t.Errorf("the account %s gives its token out", o.name())
			}
		}
	}
	if accounts != 4 {
		t.Errorf("there are %d accounts", accounts)
	}
}

// Doctor has no right and no token, and is an agent as any other: nothing keeps
// the injector from it.
func TestDoctorHasNoRights(t *testing.T) {
	all := render(t, "agent-namespace", "doctor: {image: {ref: product, pullSecrets: [registry]}, internet: [\"192.0.2.1:80\", \"192.0.2.2:80\"]}")
	doctor := find(t, all, "Pod", "code-sandbox-doctor")
	if doctor.at("spec", "automountServiceAccountToken") != false || doctor.at("spec", "serviceAccountName") != nil {
		t.Errorf("doctor has an account: %v", doctor.at("spec"))
	}
	for key := range doctor.at("metadata", "labels").(map[string]any) {
		if strings.HasPrefix(key, "code-sandbox.dev/") {
			t.Errorf("doctor has the label %s", key)
		}
	}
	for _, o := range all {
		if strings.Contains(o.kind(), "Role") && o.name() != "code-sandbox-pool" { // whose rights have a test of their own
			t.Errorf("doctor gives rights away: %s", o.name())
		}
	}
	c := object(doctor.at("spec", "containers").([]any)[0].(map[string]any))
	want := []any{"--pool=code-sandbox-pool.code-sandbox.svc", "--service=code-sandbox-doctor.system.svc:80", "--internet=192.0.2.1:80,192.0.2.2:80", "--json=false"}
	if !reflect.DeepEqual(c.at("args"), want) {
		t.Errorf("its arguments are %v", c.at("args"))
	}
	service := find(t, all, "Service", "code-sandbox-doctor")
	for key, value := range service.at("spec", "selector").(map[string]any) {
		if doctor.at("metadata", "labels", key) != value {
			t.Errorf("its Service selects %s=%v", key, value)
		}
	}
	for _, o := range render(t, "agent-namespace", "{}") {
		if strings.Contains(o.name(), "doctor") {
			t.Errorf("there is a %s for doctor, though nobody asked for it", o.kind())
		}
	}
}

// rights are all that the programs may do: a change of this list is a change of
// what an attacker gets with their tokens.
var rights = map[string][]string{
	"ClusterRole/code-sandbox-pool":       {"/pods,namespaces: get,list,watch", "/nodes: get", "authentication.k8s.io/tokenreviews: create"},
	"Role/code-sandbox-pool":              {"/pods: create,delete,get,list,watch", "coordination.k8s.io/leases: create,delete,get,list,patch", "/events: create,patch"},
	"Role/code-sandbox-certificates":      {"/secrets(code-sandbox-ca): get,update"},
	"ClusterRole/code-sandbox-injector":   {"/namespaces: get,list,watch", "/configmaps(code-sandbox-policy): get,list,watch", "/pods: list", "/pods/status: patch", "/events: create,patch", "admissionregistration.k8s.io/mutatingwebhookconfigurations(code-sandbox): get,list,watch,patch"},
	"Role/code-sandbox-injector":          {"coordination.k8s.io/leases(code-sandbox-injector): get,update"},
	"Role/code-sandbox-leave in system":   {"apps/deployments/scale(code-sandbox-pool): patch", "/pods: list"},
	"Role/code-sandbox-leave in the runs": {"/pods: deletecollection", "coordination.k8s.io/leases: deletecollection"},
}

func TestRights(t *testing.T) {
	got := map[string][]string{}
	for _, o := range render(t, "code-sandbox", everything) {
		if o.kind() != "Role" && o.kind() != "ClusterRole" {
			continue
		}
		key := o.kind() + "/" + o.name()
		if o.name() == "code-sandbox-leave" {
			key += map[bool]string{true: " in system", false: " in the runs"}[o.at("metadata", "namespace") == "system"]
		}
		for _, r := range o.at("rules").([]any) {
			got[key] = append(got[key], rule(r.(map[string]any)))
		}
	}
	if !reflect.DeepEqual(got, rights) {
		t.Errorf("the rights are\n%s\nnot\n%s", lines(got), lines(rights))
	}
	for _, o := range render(t, "agent-namespace", "toolCalls: {enabled: false}") {
		if strings.Contains(o.kind(), "Role") {
			t.Errorf("a namespace without tool calls gives rights away: %s", o.name())
		}
	}
}

func rule(r object) string {
	join := func(key string) string {
		var words []string
		for _, w := range r.at(key).([]any) {
			words = append(words, w.(string))
		}
		return strings.Join(words, ",")
	}
	text := join("apiGroups") + "/" + join("resources")
	if r.at("resourceNames") != nil {
		text += "(" + join("resourceNames") + ")"
	}
	return text + ": " + join("verbs")
}

func lines(m map[string][]string) string {
	var all []string
	for k, v := range m {
		all = append(all, fmt.Sprint(k, v))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// No chart makes a Namespace, which an uninstall would take with all that is in
// it, or binds somebody to the roles of administrators.
func TestNoNamespaceNoAdministrator(t *testing.T) {
	for _, o := range slices.Concat(render(t, "code-sandbox", everything), render(t, "agent-namespace", "toolCalls: {enabled: true}")) {
		if o.kind() == "Namespace" {
			t.Errorf("the chart makes the namespace %s", o.name())
		}
		if strings.HasSuffix(o.kind(), "Binding") && o.at("roleRef", "name") != nil && !strings.HasPrefix(o.at("roleRef", "name").(string), "code-sandbox-") {
			t.Errorf("%s binds to %v", o.name(), o.at("roleRef", "name"))
		}
	}
}

// The webhook fails closed for who asked for it, and is out of everybody
// else's way; the authority is the injector's to write.
func TestWebhook(t *testing.T) {
	w := find(t, render(t, "code-sandbox", "runs: {namespace: boxes}"), "MutatingWebhookConfiguration", "code-sandbox")
	hook := object(w.at("webhooks").([]any)[0].(map[string]any))
	if hook.at("failurePolicy") != "Fail" || hook.at("sideEffects") != "NoneOnDryRun" || hook.at("clientConfig", "caBundle") != nil {
		t.Errorf("the webhook is %v", hook)
	}
	if hook.at("namespaceSelector", "matchLabels", "code-sandbox.dev/enabled") != "true" {
		t.Error("it is asked about namespaces that are not enrolled")
	}
	but := object(hook.at("namespaceSelector", "matchExpressions").([]any)[0].(map[string]any))
	if want := []any{"kube-system", "kube-public", "kube-node-lease", "system", "boxes"}; but.at("operator") != "NotIn" || !reflect.DeepEqual(but.at("values"), want) {
		t.Errorf("it leaves out %v", but)
	}
	kind := object(hook.at("objectSelector", "matchExpressions").([]any)[0].(map[string]any))
	if kind.at("key") != "code-sandbox.dev/kind" || kind.at("operator") != "DoesNotExist" {
		t.Errorf("of pods it leaves out %v", kind)
	}
	for _, o := range render(t, "code-sandbox", "injector: {enabled: false}") {
		if o.kind() == "MutatingWebhookConfiguration" {
			t.Error("without an injector nobody could make a pod")
		}
	}
}

// Sandboxes have no network but the resolvers, and answer nobody but the pool.
func TestNetworkOfRuns(t *testing.T) {
	all := render(t, "code-sandbox", `network: {dns: {addresses: ["169.254.20.10/32"], ports: [53, 5353]}}`)
	deny := find(t, all, "NetworkPolicy", "code-sandbox-default-deny")
	if !reflect.DeepEqual(deny.at("spec"), map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Ingress", "Egress"}}) {
		t.Errorf("the denial is %v", deny.at("spec"))
	}
	egress := 0
	for _, o := range all {
		if o.kind() != "NetworkPolicy" || o.at("metadata", "namespace") != "code-sandbox-runs" {
			continue
		}
		if rules, ok := o.at("spec", "egress").([]any); ok {
			egress += len(rules)
			to := object(rules[0].(map[string]any)).at("to").([]any)
			if len(to) != 2 || object(to[1].(map[string]any)).at("ipBlock", "cidr") != "169.254.20.10/32" ||
				o.at("spec", "podSelector", "matchLabels", "code-sandbox.dev/dns") != "relay" {
				t.Errorf("the way out of %s is %v", o.name(), rules)
			}
		}
	}
	if egress != 1 {
		t.Errorf("there are %d ways out", egress)
	}
	in := find(t, all, "NetworkPolicy", "code-sandbox-pool-to-runner")
	from := object(in.at("spec", "ingress").([]any)[0].(map[string]any)).at("from").([]any)
	pool := object(from[0].(map[string]any))
	if len(from) != 1 || pool.at("namespaceSelector", "matchLabels", "kubernetes.io/metadata.name") != "system" ||
		pool.at("podSelector", "matchLabels", "app.kubernetes.io/component") != "pool" {
		t.Errorf("the way in is %v", from)
	}
}
