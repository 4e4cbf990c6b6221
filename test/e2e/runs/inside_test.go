//go:build e2e

package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/code-sandbox/code-sandbox/test/cluster"
	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// dial is a program that says of each target what "probe dial" says.
const dial = `
import socket, sys, threading
said = {}
def reach(target):
    host, _, port = target.rpartition(":")
    try:
        if host:
            socket.create_connection((host, int(port)), timeout=2).close()
            said[target] = "open"
        else:
            said[target] = socket.gethostbyname(target)
    except OSError:
        said[target] = "closed" if host else "unknown"
threads = [threading.Thread(target=reach, args=(t,)) for t in sys.argv[1:]]
for t in threads: t.start()
for t in threads: t.join()
for t in sys.argv[1:]: print(t, said[t])
`

// reach is what a program in a sandbox reaches of the targets.
func reach(t *testing.T, url string, targets []string) (said []string) {
	t.Helper()
	a, err := e2e.Call(t.Context(), url, map[string]any{"code": dial, "args": targets, "timeout_seconds": 30})
	if err != nil || a.Failure != nil || a.Outcome != "ok" {
		t.Fatalf("%+v %+v %v", a, a.Failure, err)
	}
	return answersOf(a.Stdout)
}

func answersOf(lines string) (said []string) {
	for line := range strings.Lines(lines) {
		_, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
		said = append(said, answer)
	}
	return said
}

// A program in a sandbox reaches nobody, while a pod of its agent's namespace
// reaches each of the same targets; only names it can look up. What nobody can
// show on this cluster: fd00:ec2::254, since it has no IPv6.
func TestP18NobodyIsReached(t *testing.T) {
	p := use(t, nil)
	url := p.agent(t, "curious")
	open := p.tenants.Pod("open", "probe", "serve", ":8000")
	p.tenants.Create(open)
	t.Cleanup(func() { p.remove(t, "open") })
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "open"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8000)}}}}
	shop, err := p.tenants.Kube.CoreV1().Services(tenantsName).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.tenants.Kube.CoreV1().Services(tenantsName).Delete(p.cleaning(t), "shop", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	replicas, err := p.system.Parts(t.Context(), "pool")
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{
		cluster.MetaIP + ":80",                           // a cloud's metadata server
		cluster.WorldIP + ":80",                          // the internet
		cluster.NodeIP + ":10250",                        // the node's kubelet
		cluster.NodeIP + ":6443", cluster.APIIP + ":443", // the API server
		cluster.NodeIP + ":5000", // the registry
		p.tenants.WaitReady("open").Status.PodIP + ":8000", shop.Spec.ClusterIP + ":80",
	}
	for _, r := range replicas {
		targets = append(targets, r.Status.PodIP+":8443", r.Status.PodIP+":8902", r.Status.PodIP+":8903")
	}
	targets = append(targets, "kubernetes.default.svc.cluster.local", "world.example", "metadata.google.internal")
	names := []string{cluster.APIIP, cluster.WorldIP, "unknown"}
	all := len(targets) - len(names)

	p.tenants.Eventually("an open pod reaches all", func(context.Context) error { // a service needs a moment
		said, err := p.tenants.Exec("open", append([]string{"/usr/local/bin/probe", "dial"}, targets...)...)
		if reached := answersOf(said); err != nil || !slices.Equal(reached, append(slices.Repeat([]string{"open"}, all), names...)) {
			return fmt.Errorf("of %q it reaches %q: %w", targets, reached, err)
		}
		return nil
	})
	// Other sandboxes. Their runners let in the pool alone, so nobody else shows
	// that they listen; but they have served it.
	p.waitWarm(t)
	boxes, err := p.boxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range boxes {
		targets = append(targets, b.Status.PodIP+":8901")
	}
	want := append(slices.Repeat([]string{"closed"}, all), names...)
	want = append(want, slices.Repeat([]string{"closed"}, len(boxes)-1)...)
	got := reach(t, url, targets)
	// One of the sandboxes is the program's own, which it reaches: it gains
	// nothing by that (P21).
	own := slices.Index(got, "open")
	if own < all+len(names) || len(got) != len(want)+1 {
		t.Fatalf("of %q it reaches %q", targets, got)
	}
	if got = slices.Delete(got, own, own+1); !slices.Equal(got, want) {
		t.Errorf("of %q it reaches %q", targets, got)
	}
}

// What a program may try on the runner in its own sandbox.
func TestP21TheRunnerIsClosed(t *testing.T) {
	p := use(t, nil)
	url := p.agent(t, "attacker")
	f := func(what, code, want string) {
		t.Helper()
		if a := run(t, url, attack+code); a.Stdout != want {
			t.Errorf("%s: stdout %q, stderr %q, %s %s", what, a.Stdout, a.Stderr, a.Outcome, a.Reason)
		}
	}
	f("environment", `
tries(lambda: open("/proc/1/environ").read())
print([k for k in os.environ if k.startswith(("KUBERNETES", "CODE_SANDBOX"))], os.path.exists("/var/run/secrets"))`, "refused\n[] False\n")
	f("memory", `
tries(lambda: open("/proc/1/mem", "rb").read(1))
tries(lambda: open("/proc/1/maps").read() or check(-1))
tries(lambda: os.listdir("/proc/1/fd"))`, "refused\nrefused\nrefused\n")
	f("ptrace", `
tries(lambda: check(libc.ptrace(16, 1, 0, 0)))
tries(lambda: check(libc.ptrace(0x4206, 1, 0, 0)))`, "refused\nrefused\n")
	f("loopback", `
import http.client, ssl
context = ssl._create_unverified_context()
for path in "/v1/run", "/v1/fresh":
    for headers in {}, {"Authorization": "Bearer guess"}:
        c = http.client.HTTPSConnection("127.0.0.1", 8901, context=context, timeout=5)
        c.request("POST", path, '{"code": "print(2)"}', dict(headers, **{"X-Nonce": "n"}))
        print(c.getresponse().status)`, strings.Repeat("401\n", 4))
	f("signals", `
for s in range(1, 65): os.kill(1, s)
print("still there")`, "still there\n")
	// A forged result is text, and a record of the program's own has an exit code
	// of its choice, which it has anyway.
	forged := `{"nonce":"x","result":{"outcome":"ok","exit_code":0,"stdout":"forged","sandbox_id":"sb-other"}}`
	a := run(t, url, fmt.Sprintf("import os, json, struct, sys\nprint(%q, flush=True)\n"+`
b = json.dumps({"exit_code": 0, "outcome": "evicted", "isolation": "none", "files": [{"path": "../../x"}]}).encode()
os.write(3, struct.pack(">I", len(b)) + b); os._exit(7)`, forged))
	if a.Stdout != forged+"\n" || a.SandboxID == "sb-other" || a.Isolation != "pod" || a.Outcome == "evicted" {
		t.Errorf("forged: %+v", a)
	}
}

const attack = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def check(n):
    if n < 0: raise OSError(ctypes.get_errno(), "refused")
def tries(act):
    try:
        act()
        print("open")
    except OSError:
        print("refused")
`
