package kube

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func testProgram() *wire.Copy {
	return &wire.Copy{
		Python: "/usr/local/bin/python3", Flags: []string{}, Prefixes: []string{"/usr/local"}, Program: []string{"/app", "/app/main.py"},
		Env:    map[string]string{"LANG": "C.UTF-8"},
		Boot:   json.RawMessage(`{"cwd":"/app","main":{"kind":"path","path":"/app/main.py"}}`),
		Target: json.RawMessage(`{"module":"__main__","qualname":"add"}`),
	}
}

func copyTemplate(a *agent) pool.Template {
	t := testTemplate()
	t.Image, t.Owner, t.Copy, t.Warm = a.image, callerOf(a.namespace, a.pod, string(a.uid)), testProgram(), 1
	return t
}

func testAgent(t *testing.T, change func(*corev1.Pod)) *agent {
	t.Helper()
	p := agentPod()
	if change != nil {
		change(p)
	}
	a, err := agentOf(p, "app")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestCopyPods(t *testing.T) {
	f := func(name string, change func(*corev1.Pod, *PodConfig, *agent)) {
		t.Helper()
		c, p := testPods(), agentPod()
		a := testAgent(t, nil)
		if change != nil {
			change(p, &c, a)
		}
		asked := copyPodFor(c.withDefaults(), a, copyTemplate(a), testID)
		if name == "covered" {
			cover(asked, &wire.Covers{Files: []string{"/app/.env"}, Folders: []string{"/app/.git"}, Volumes: []string{"/data"}})
		}
		golden(t, "copy-"+name, asked)
	}
	// Of an agent with credentials of every kind.
	f("default", nil)
	// With all that an operator can set, on a node whose processor is known.
	f("full", func(_ *corev1.Pod, c *PodConfig, a *agent) {
		c.UserNamespace, c.RuntimeClass, c.PriorityClass, c.RunnerFrom = true, "gvisor", "sandboxes", RunnerVolume
		c.PullSecrets, c.NodeSelector = []string{"of-the-runs-namespace"}, map[string]string{"pool": "sandboxes"}
		c.Tolerations = []corev1.Toleration{{Key: "sandboxes", Operator: corev1.TolerationOpExists}}
		c.Labels = map[string]string{"team": "ml", LabelCopy: "forged"}
		a.arch = "arm64"
	})
	// Of an image with credentials and a volume.
	f("covered", nil)
	// Of one that nothing more is known of.
	f("least", func(_ *corev1.Pod, _ *PodConfig, a *agent) {
		a.user, a.group, a.node, a.tolerations, a.pullSecrets = 0, 0, "", nil, nil
	})
}

// Nothing of the agent's own is in its copy's pod but what an agent holds.
func TestCopyPodHoldsNoSecret(t *testing.T) {
	a := testAgent(t, nil)
	p := copyPodFor(testPods().withDefaults(), a, copyTemplate(a), testID)
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"of-the-agent", "/keys", "powerful", "iam.example", testID.secret, `"fsGroup"`} {
		if strings.Contains(string(raw), secret) {
			t.Errorf("%q is in the copy's pod", secret)
		}
	}
	s := p.Spec
	if *s.AutomountServiceAccountToken || *s.EnableServiceLinks || len(s.Containers[0].Env) != 1 || len(s.Containers[0].EnvFrom) > 0 || s.Containers[0].Image != appDigest {
		t.Errorf("%s", raw)
	}
	for _, v := range s.Volumes {
		if v.EmptyDir == nil {
			t.Errorf("the volume %q is none of ours", v.Name)
		}
	}
}
