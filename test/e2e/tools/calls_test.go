//go:build e2e

package tools

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// T1 and T19: the same agent without us and with us. Its tool sees every
// credential, and then none; what it computes is the same.
func (p *platform) testOpenAIAgents(t *testing.T) {
	wanted := calls(t, call("add", map[string]any{"a": 2, "b": 3}), call("look", map[string]any{}))
	before := p.run(t, annotate(p.agent("before", wanted...), "tools", "off"))
	without := look(t, before.Said[1])
	for _, where := range []string{"environ OPENAI_API_KEY", "environ FROM_OPENAI_API_KEY", "environ BAKED_API_KEY", "files /etc/agent/OPENAI_API_KEY",
		"files /projected/token", "files /var/run/secrets/kubernetes.io/serviceaccount/token", "files /app/.env"} {
		if !slices.Contains(without.credentialsIn(), where) {
			t.Errorf("without us %s has no credential: the test shows nothing", where)
		}
	}
	after := p.run(t, p.agent("after", wanted...))
	with := look(t, after.Said[1])
	if after.Said[0] != "5" || before.Said[0] != "5" {
		t.Errorf("the sum is %q, and was %q", after.Said[0], before.Said[0])
	}
	if without.Host != before.Host || with.Host == after.Host {
		t.Errorf("the tool ran in %s, and before in %s", with.Host, without.Host)
	}
	if found := with.credentialsIn(); len(found) > 0 {
		t.Errorf("a credential is in %q", found)
	}
	for name, want := range map[string]string{"OPENAI_API_KEY": "code-sandbox-redacted", "FROM_DB_URL": "postgres://redacted.invalid:1/", "FROM_PORT": "0", "KUBERNETES_SERVICE_HOST": "code-sandbox-redacted"} {
		if with.Environ[name] != want {
			t.Errorf("%s is %q, not %q", name, with.Environ[name], want)
		}
	}
	for name := range with.Environ {
		if strings.HasPrefix(name, "CODE_SANDBOX_") {
			t.Errorf("the tool sees %s", name)
		}
	}
}

// The copies have the kernel of their runtime class, and the agent its node's:
// gVisor's says that it is Linux 4.4.0.
func (p *platform) testKernel(t *testing.T) {
	version := call("read", map[string]any{"path": "/proc/version"})
	r := p.run(t, p.agent("kernel", calls(t, version)...))
	own := p.run(t, annotate(p.agent("own-kernel", calls(t, version)...), "tools", "off"))
	if !strings.HasPrefix(r.Said[0], "Linux version ") || !strings.HasPrefix(own.Said[0], "Linux version ") {
		t.Fatalf("the copy has %q, the agent %q", r.Said[0], own.Said[0])
	}
	if is := strings.Contains(r.Said[0], "Linux version 4.4.0"); is != (p.class == "gvisor") || is == (r.Said[0] == own.Said[0]) {
		t.Errorf("the copy has %q, the agent %q", r.Said[0], own.Said[0])
	}
}

// T2: an asynchronous tool with a pydantic argument and a pydantic return.
func (p *platform) testPydantic(t *testing.T) {
	r := p.run(t, p.agent("pydantic", calls(t, call("weather", map[string]any{"query": map[string]any{"city": "Oslo"}}))...))
	if r.Said[0] != "city='Oslo' degrees=21.5" {
		t.Errorf("the tool said %q", r.Said[0])
	}
}

// T5: LangGraph's ToolNode, sync and async; parallel calls are in different copies.
func (p *platform) testLangGraph(t *testing.T) {
	r := p.run(t, p.agent("graph", "python3", "-u", "graph_agent.py"))
	for _, said := range [][]string{r.Sync, r.Async} {
		first, second := look(t, said[1]), look(t, said[2])
		if said[0] != "5" || first.Host == second.Host || first.Host == r.Host || second.Host == r.Host {
			t.Errorf("the sum is %q; the tools ran in %s and %s, the agent in %s", said[0], first.Host, second.Host, r.Host)
		}
		if found := append(first.credentialsIn(), second.credentialsIn()...); len(found) > 0 {
			t.Errorf("a credential is in %q", found)
		}
	}
	if r.Async[3] != "LOUD" {
		t.Errorf("the asynchronous tool said %q", r.Async[3])
	}
}

// T13: agents that are servers, with no guard and with workers.
func (p *platform) testServers(t *testing.T) {
	f := func(name string, command ...string) {
		t.Run(name, func(t *testing.T) {
			p.agents.Create(p.agent(name, command...))
			var answer struct {
				Host     string
				ToolHost string `json:"tool_host"`
			}
			ask := `import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:8000/", timeout=150).read().decode())`
			p.agents.EventuallyIn(patience, "the server answers", func(context.Context) error {
				said, err := p.agents.Exec(name, "python3", "-I", "-c", ask)
				if err != nil {
					return err
				}
				return json.Unmarshal([]byte(said), &answer)
			})
			if answer.Host == "" || answer.ToolHost == "" || answer.Host == answer.ToolHost {
				t.Errorf("the tool ran in %q, the server in %q", answer.ToolHost, answer.Host)
			}
		})
	}
	f("unguarded", "python3", "-u", "server_agent.py")
	f("workers", "python3", "-u", "-m", "uvicorn", "server_agent:app", "--port", "8000", "--workers", "2")
}

// T14: the import survives without the key; a call that needs it names it.
func (p *platform) testKeyOfTheModule(t *testing.T) {
	// What the tool holds its key against crosses; the key does not.
	r := p.run(t, annotate(p.agent("module-key", calls(t, call("use_key", map[string]any{}))...), "tool-env-allow", "!EXPECTED_KEY"))
	if !strings.Contains(r.Said[0], "the service refuses the key") || !strings.Contains(r.Said[0], "OPENAI_API_KEY") {
		t.Errorf("the tool said %q", r.Said[0])
	}
	if strings.Contains(r.Said[0], mark) {
		t.Errorf("the message has the key: %q", r.Said[0])
	}
	// Its value may cross when the author says so.
	r = p.run(t, annotate(p.agent("allowed-key", calls(t, call("look", map[string]any{}))...), "tool-env-allow", "!OPENAI_API_KEY"))
	if got := look(t, r.Said[0]).Environ["OPENAI_API_KEY"]; got != mark+"env-0123456789abcdef" {
		t.Errorf("the key is %q", got)
	}
}

// T16: the image's PYTHONPATH and the user's sitecustomize are in force in the
// agent and in its copies, wherever the variable came from.
func (p *platform) testPaths(t *testing.T) {
	f := func(name string, change func(*corev1.Pod)) {
		t.Helper()
		pod := p.agent(name, calls(t, call("look", map[string]any{}))...)
		change(pod)
		r := p.run(t, pod)
		s := look(t, r.Said[0])
		if s.Helper != 7 || s.UserRan != 1 || s.Host == r.Host {
			t.Errorf("%s: the helper is %d, sitecustomize ran %d times, the tool in %s", name, s.Helper, s.UserRan, s.Host)
		}
	}
	f("path-of-image", func(*corev1.Pod) {})
	f("path-of-pod", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "PYTHONPATH", Value: "/app/lib"})
	})
	settings := corev1.LocalObjectReference{Name: "settings"}
	f("path-of-key", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "PYTHONPATH",
			ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "PYTHONPATH", LocalObjectReference: settings}}})
	})
	f("path-of-map", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].EnvFrom = append(pod.Spec.Containers[0].EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: settings}})
	})
}
