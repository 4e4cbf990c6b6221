package injector

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func agent(spec string, annotations ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent", Annotations: map[string]string{}}}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		panic(err)
	}
	return pod
}

const plain = `containers: [{name: main, image: a}]`

func TestDecide(t *testing.T) {
	c := testConfig()
	f := func(pod *corev1.Pod, namespace *corev1.Namespace, want Reason) {
		t.Helper()
		if got := Decide(pod, namespace, c); got.Reason != want {
			t.Errorf("the reason is %q, not %q: %s", got.Reason, want, got.Message)
		}
	}
	in := func(name string) *corev1.Namespace {
		ns := enrolled()
		ns.Name = name
		return ns
	}
	// A plain pod, and one that asks for it.
	f(agent(plain), enrolled(), "")
	f(agent(plain, KeyInject, "true"), enrolled(), "")
	// It may say no; what is neither yes nor no is a mistake.
	f(agent(plain, KeyInject, "false"), enrolled(), OptedOut)
	f(agent(plain, KeyInject, "no"), enrolled(), BadAnnotation)
	// Kubernetes' namespaces and ours, though somebody has enrolled them.
	f(agent(plain), in("kube-system"), SystemNamespace)
	f(agent(plain), in("code-sandbox"), OwnNamespace)
	f(agent(plain), in("code-sandbox-runs"), OwnNamespace)
	// A namespace that is not enrolled, or no longer.
	f(agent(plain), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, NotEnrolled)
	f(agent(plain), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{LabelEnabled: "false"}}}, NotEnrolled)
	// Sandboxes, and what the kubelet shows of its own pods.
	sandbox := agent(plain)
	sandbox.Labels = map[string]string{LabelKind: "python"}
	f(sandbox, enrolled(), IsSandbox)
	f(agent(plain, corev1.MirrorPodAnnotationKey, "x"), enrolled(), MirrorPod)
	// Windows, said in two ways.
	f(agent(plain+"\nos: {name: windows}"), enrolled(), Windows)
	f(agent(plain+"\nnodeSelector: {kubernetes.io/os: windows}"), enrolled(), Windows)
	f(agent(plain+"\nos: {name: linux}"), enrolled(), "")
	// The node's network.
	f(agent(plain+"\nhostNetwork: true"), enrolled(), HostNetwork)
	// Our ports; the same over UDP are no conflict, nor are others.
	f(agent(`containers: [{name: main, ports: [{containerPort: 8900}]}]`), enrolled(), PortTaken)
	f(agent(`containers: [{name: main, ports: [{containerPort: 8902, protocol: TCP}]}]`), enrolled(), PortTaken)
	f(agent(`{containers: [{name: main}], initContainers: [{name: first, restartPolicy: Always, ports: [{containerPort: 8900}]}]}`), enrolled(), PortTaken)
	f(agent(`containers: [{name: main, ports: [{containerPort: 8900, protocol: UDP}, {containerPort: 8901}]}]`), enrolled(), "")
	// Our names.
	f(agent(`containers: [{name: code-sandbox-sidecar}]`), enrolled(), NameTaken)
	f(agent(`{containers: [{name: main}], initContainers: [{name: code-sandbox-hook}]}`), enrolled(), NameTaken)
	f(agent(`{containers: [{name: main}], initContainers: [{name: code-sandbox-image-0}]}`), enrolled(), NameTaken)
	f(agent(`{containers: [{name: main}], volumes: [{name: code-sandbox-token}]}`), enrolled(), NameTaken)
	// A volume that we are going to add is nobody else's to mount.
	f(agent(`containers: [{name: main, volumeMounts: [{name: code-sandbox-token, mountPath: /t}]}]`), enrolled(), NameTaken)
	f(agent(`{containers: [{name: main}], initContainers: [{name: first, volumeMounts: [{name: code-sandbox-token, mountPath: /t}]}]}`), enrolled(), NameTaken)
	f(agent(`containers: [{name: main, volumeMounts: [{name: code-sandbox-hook, mountPath: /elsewhere}]}]`), enrolled(), NameTaken)
	f(agent(`containers: [{name: main, volumeMounts: [{name: code-sandbox-hook, mountPath: /code-sandbox, readOnly: true}]}]`), enrolled(), NameTaken)
	// A container for the hook that is not there.
	f(agent(plain, KeyContainers, "main, other"), enrolled(), BadAnnotation)
	f(agent(plain, KeyContainers, " main ,"), enrolled(), "")
}

// A pod that says it was injected and has no sidecar gets one.
func TestInjectedIsNotBelieved(t *testing.T) {
	a := consider(agent(plain, KeyInjected, "yes"), enrolled(), testConfig())
	if a.result != injected {
		t.Errorf("it is %s: %v", a.result, a.verdict)
	}
}

func TestEveryReasonHasAKind(t *testing.T) {
	for _, r := range Reasons {
		if _, ok := kinds[r]; !ok {
			t.Errorf("what is %q?", r)
		}
	}
	if len(kinds) != len(Reasons) {
		t.Errorf("there are %d kinds of %d reasons", len(kinds), len(Reasons))
	}
}

// What cannot be injected is let in with a warning or refused, as configured;
// a mistake is always refused. Who is refused is told the way out.
func TestRefusals(t *testing.T) {
	f := func(pod *corev1.Pod, deny bool, want result, says string) {
		t.Helper()
		c := testConfig()
		c.Deny = deny
		a := consider(pod, enrolled(), c)
		r, err := a.response("uid")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if a.result != want || r.Response.Allowed == (want == denied) || !strings.Contains(string(raw), says) {
			t.Errorf("it is %s: %s", a.result, raw)
		}
	}
	// A pod on the node's network.
	f(agent(plain+"\nhostNetwork: true"), false, skipped, "no sidecar: the pod uses its node's network")
	f(agent(plain+"\nhostNetwork: true"), true, denied, "annotate it with code-sandbox.dev/inject=false")
	// Somebody's wish is never refused.
	f(agent(plain, KeyInject, "false"), true, skipped, "opted_out")
	// A mistake.
	f(agent(plain, Prefix+"tools", "strict"), false, denied, `\"strict\"; it must be enforce or audit or off`)
	// A key that means nothing is told, and the pod injected.
	f(agent(plain, Prefix+"toosl", "audit"), true, injected, "the annotation code-sandbox.dev/toosl means nothing")
}

func TestResolve(t *testing.T) {
	ns := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[Prefix+pairs[i]] = pairs[i+1]
		}
		return m
	}
	f := func(namespace, pod map[string]string, want string) {
		t.Helper()
		p, _, err := Resolve(Policy{"tools": "enforce"}, namespace, pod)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("the policy is\n%s, not\n%s", got, want)
		}
	}
	// Nothing said; the namespace's word; the pod's over it.
	f(nil, nil, `{"tools":"enforce"}`)
	f(ns("tools", "audit"), nil, `{"tools":"audit"}`)
	f(ns("tools", "audit", "tool-timeout", "60"), ns("tools", "off"), `{"tool-timeout":"60","tools":"off"}`)
	// An empty word takes the namespace's back.
	f(ns("tool-env-allow", "AWS_*"), ns("tool-env-allow", ""), `{"tools":"enforce"}`)
	// Words that cannot be.
	f(ns("tools", "on"), nil, `the namespace's annotation code-sandbox.dev/tools is "on"; it must be enforce or audit or off`)
	f(nil, ns("tool-timeout", "30s"), `the pod's annotation code-sandbox.dev/tool-timeout is "30s"; it must be a number of seconds up to 3600`)
	f(nil, ns("tool-timeout", "NaN"), `the pod's annotation code-sandbox.dev/tool-timeout is "NaN"; it must be a number of seconds up to 3600`)
	f(nil, ns("tools-include", "["), `the pod's annotation code-sandbox.dev/tools-include is "["; it must be globs separated by commas`)
	f(nil, ns("tool-functions", "tools"), `the pod's annotation code-sandbox.dev/tool-functions is "tools"; it must be module:glob, separated by commas`)
	f(nil, ns("tool-memory", "lots"), `the pod's annotation code-sandbox.dev/tool-memory is "lots"; it must be a quantity such as 512Mi, from 64Mi on`)
	f(nil, ns("tool-memory", "512"), `the pod's annotation code-sandbox.dev/tool-memory is "512"; it must be a quantity such as 512Mi, from 64Mi on`)
	f(nil, ns("grants", "search"), `the pod's annotation code-sandbox.dev/grants is "search"; it must be TOOL=HOST[:PORT][,HOST[:PORT]...], separated by spaces`)
	f(nil, ns("grants", "a=b:443 c=d:0"), `the pod's annotation code-sandbox.dev/grants is "a=b:443 c=d:0"; it must be TOOL=HOST[:PORT][,HOST[:PORT]...] with hosts that can be: "d:0" is not HOST or HOST:PORT`)
	f(nil, ns("tool-memory", "256Mi", "grants", "search=api.example:443"), `{"grants":"search=api.example:443","tool-memory":"256Mi","tools":"enforce"}`)
	f(nil, ns("require-hook", "yes"), `the pod's annotation code-sandbox.dev/require-hook is "yes"; it must be true or false`)
}

func TestValidate(t *testing.T) {
	f := func(change func(*Config), says string) {
		t.Helper()
		c := testConfig()
		change(&c)
		err := c.Validate()
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("the error is %v", err)
		}
	}
	// As the chart makes it.
	f(func(*Config) {}, "")
	// Each field that cannot be.
	f(func(c *Config) { c.Image = "" }, `the image is ""`)
	f(func(c *Config) { c.Pool = "" }, "address of the pool")
	f(func(c *Config) { c.UID = 0 }, "user id is 0")
	f(func(c *Config) { c.PullPolicy = "Sometimes" }, "pull policy")
	f(func(c *Config) { c.Limits = c.Requests.DeepCopy(); c.Requests = DefaultConfig().Limits }, "no more than the second")
	f(func(c *Config) { delete(c.Limits, "cpu") }, "asks for 10m of cpu and may use 0")
	f(func(c *Config) { c.Defaults = Policy{"tools": "maybe"} }, `the default policy is not valid: the default's annotation code-sandbox.dev/tools is "maybe"`)
	f(func(c *Config) { c.Defaults = Policy{"toosl": "audit"} }, `the default policy has "toosl", which means nothing`)
}

// Readers find every annotation and every reason.
func TestContractIsDocumented(t *testing.T) {
	raw, err := os.ReadFile("../helm/agent-namespace/README.md")
	if err != nil {
		t.Fatal(err)
	}
	f := func(word string) {
		t.Helper()
		if !strings.Contains(string(raw), "`"+word+"`") {
			t.Errorf("nobody is told of %s", word)
		}
	}
	for _, s := range settings {
		f(s.key)
	}
	for _, key := range podKeys {
		f(strings.TrimPrefix(key, Prefix))
	}
	for _, r := range Reasons {
		f(string(r))
	}
}
