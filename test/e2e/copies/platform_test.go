//go:build e2e

package copies

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/pool/api/client"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// platform is an installation of both charts, without the injector: what agents
// say to the pool, the test says for them.
type platform struct {
	t                    *testing.T
	system, runs, agents *e2e.Space
	address, authority   string
	isolation            string // what the pool tells of its sandboxes
}

const release = "platform"

// install installs the charts, with sandboxes of a runtime class; empty is the
// node's own runtime.
func install(t *testing.T, class string) *platform {
	t.Helper()
	restricted := e2e.Labels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	p := &platform{t: t, system: e2e.NewSpace(t, restricted), runs: e2e.NewSpace(t, restricted),
		agents: e2e.NewSpace(t, restricted, e2e.Labels(map[string]string{"code-sandbox.dev/enabled": "true"})), isolation: cmp.Or(class, "pod")}
	values := map[string]string{
		"runs.namespace": p.runs.Name, "sandbox.cpuRequest": "10m", "sandbox.preload": "null", "pool.replicas": "1", "pool.target": "1",
		"pool.max": "8", "pool.resources.requests.cpu": "10m", "injector.enabled": "false", "sandbox.runtimeClassName": class,
	}
	for prefix, image := range map[string]string{"image": "code-sandbox", "sandbox.image": "python"} {
		values[prefix+".repository"], values[prefix+".digest"], _ = strings.Cut(p.system.Image(image), "@")
	}
	// The last to go: with it goes the pool's right to take copies away.
	p.chart(p.agents, "agents", "agent-namespace", map[string]string{"platformNamespace": p.system.Name, "toolCalls.enabled": "true"})
	p.chart(p.system, release, "code-sandbox", values)
	pods, err := p.system.Parts(t.Context(), "pool")
	if err != nil || len(pods) != 1 {
		t.Fatalf("the pool's pods: %v, %v", pods, err)
	}
	local, err := url.Parse(p.system.Forward(pods[0].Name, 8443))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := p.system.Kube.CoreV1().Secrets(p.system.Name).Get(t.Context(), "code-sandbox-ca", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.address, p.authority = local.Host, string(secret.Data["ca.crt"])
	t.Cleanup(func() { p.tell(pods[0].Name) })
	return p
}

// chart installs one, until the test ends.
func (p *platform) chart(s *e2e.Space, name, chart string, values map[string]string) {
	p.t.Helper()
	args := []string{"install", name, e2e.Chart(chart), "--wait", "--timeout", "180s"}
	for k, v := range values {
		args = append(args, "--set", k+"="+v)
	}
	p.t.Cleanup(func() {
		if out, err := s.Helm(context.WithoutCancel(p.t.Context()), "uninstall", name, "--wait", "--timeout", "120s"); err != nil {
			p.t.Errorf("cannot uninstall %q: %v: %s", chart, err, out)
		}
	})
	if out, err := s.Helm(p.t.Context(), args...); err != nil {
		p.t.Fatalf("cannot install %q: %v: %s", chart, err, out)
	}
}

// tell tells the log of a test that failed what the pool said.
func (p *platform) tell(pod string) {
	if p.t.Failed() {
		p.t.Logf("the pool said:\n%s", p.system.Log(pod, "pool"))
	}
}

// agent is an agent's pod that runs, and the pool's client that speaks for it.
type agent struct {
	*platform
	pod    *corev1.Pod
	client *client.Client
	boot   map[string]any
	python string
}

// start starts an agent that waits. Its interpreter tells what its hook would.
func (p *platform) start(name, image, python string, change func(*corev1.Pod)) *agent {
	p.t.Helper()
	pod := p.agents.Pod(name, image)
	pod.Spec.Containers[0].Command = []string{python, "-c", "import time; time.sleep(3600)"}
	pod.Spec.SecurityContext.RunAsUser = new(int64(1000))
	if change != nil {
		change(pod)
	}
	p.agents.Create(pod)
	a := &agent{platform: p, pod: p.agents.WaitReady(name), python: python}
	seconds := int64(600)
	token, err := p.agents.Kube.CoreV1().ServiceAccounts(p.agents.Name).CreateToken(p.t.Context(), a.pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"code-sandbox-pool"}, ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: name, UID: a.pod.UID}}}, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(p.t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Status.Token), 0o600); err != nil {
		p.t.Fatal(err)
	}
	a.client, err = client.New(client.Options{Address: p.address, ServerName: "code-sandbox-pool." + p.system.Name + ".svc",
		TokenFile: file, CA: []byte(p.authority)})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(a.client.Close)
	return a
}

// tellBoot has the agent's interpreter tell what a copy of it needs.
func (a *agent) tellBoot(folder string) {
	a.t.Helper()
	out := a.agents.MustExec(a.pod.Name, a.python, "-c", `
import json, os, sys
print(json.dumps({"cwd": sys.argv[1], "argv0": "main.py", "main": {"kind": "none"}, "sys_path": [sys.argv[1]] + sys.path[1:],
  "env": {"values": {}, "names": {n: {"shape": "opaque"} for n in os.environ if n != "PATH"}}, "prefix": sys.prefix}))`, folder)
	if err := json.Unmarshal([]byte(out), &a.boot); err != nil {
		a.t.Fatalf("%v: %s", err, out)
	}
}

// program is a function of a module, as the agent's hook would tell of it.
func (a *agent) program(folder, module, function string) *wire.Copy {
	a.t.Helper()
	if a.boot == nil {
		a.tellBoot(folder)
	}
	line := a.agents.MustExec(a.pod.Name, a.python, "-c", "import importlib, sys; sys.path.insert(0, sys.argv[1]); "+
		"print(getattr(importlib.import_module(sys.argv[2]), sys.argv[3]).__code__.co_firstlineno)", folder, module, function)
	var first int
	if err := json.Unmarshal([]byte(line), &first); err != nil {
		a.t.Fatalf("%v: %s", err, line)
	}
	prefix, ok := a.boot["prefix"].(string)
	if !ok {
		a.t.Fatalf("%v", a.boot)
	}
	return &wire.Copy{
		Python: a.python, Flags: []string{}, Prefixes: []string{prefix}, Program: []string{folder}, Env: map[string]string{},
		Boot: a.json(a.boot), Target: a.json(map[string]any{"module": module, "qualname": function, "line": first, "ordinal": 0}),
	}
}

func (a *agent) json(v any) json.RawMessage {
	a.t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

// call calls a function of a copy.
func (a *agent) call(program *wire.Copy, args ...any) (*wire.Result, error) {
	a.t.Helper()
	req := &wire.Request{TimeoutSeconds: 20, Call: a.json(map[string]any{"op": "call", "target": program.Target, "args": append([]any{}, args...), "kwargs": map[string]any{}})}
	return a.client.Call(a.t.Context(), program, req, nil)
}

// value is what a call returned.
func (a *agent) value(program *wire.Copy, args ...any) (string, *wire.Result) {
	a.t.Helper()
	began := time.Now()
	res, err := a.call(program, args...)
	if err != nil {
		a.t.Fatalf("after %s: %v", time.Since(began), err)
	}
	var word struct {
		OK    bool            `json:"ok"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(res.Call, &word); err != nil || !word.OK {
		a.t.Fatalf("%s (%s): %s; %s", res.Outcome, res.Reason, res.Call, res.Stderr)
	}
	return string(word.Value), res
}
