//go:build e2e

package runs

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/cluster"
)

// Sandboxes look names up where the settings say, and the network lets them
// there though no selector names it: as with a resolver on each node.
func TestP19OtherNameServers(t *testing.T) {
	p := use(t, nil)
	pods, err := p.system.Kube.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d resolvers, %v", len(pods.Items), err)
	}
	resolver := pods.Items[0].Status.PodIP
	p = use(t, settings{"pool.replicas": 1, "sandbox.nameServers": []string{resolver}, "network.dns.addresses": []string{resolver + "/32"},
		"network.dns.namespace": "nowhere"})
	url := p.agent(t, "other-names")
	a := run(t, url, "import socket\nprint(open('/etc/resolv.conf').read().split())\nprint(socket.gethostbyname('world.example'))")
	if want := fmt.Sprintf("['nameserver', '%s']\n%s\n", resolver, cluster.WorldIP); a.Stdout != want {
		t.Errorf("stdout %q, want %q: %s", a.Stdout, want, a.Stderr)
	}
	if got := reach(t, url, []string{resolver + ":53", resolver + ":8181", cluster.WorldIP + ":53"}); !slices.Equal(got, []string{"open", "closed", "closed"}) {
		t.Errorf("of the resolver's port 53, another of its ports and another's port 53 it reaches %q", got)
	}
}

// Without lookups there is no way out at all, and a lookup fails at once.
func TestP20NoLookups(t *testing.T) {
	p := use(t, settings{"pool.replicas": 1, "sandbox.dns": "none"})
	url := p.agent(t, "no-names")
	a := run(t, url, `
import socket, time
began = time.time()
for name in "world.example", "secret.example", "kubernetes.default.svc.cluster.local":
    try: print(socket.gethostbyname(name))
    except OSError: print("unknown")
print(time.time() - began < 5)`)
	if a.Stdout != "unknown\nunknown\nunknown\nTrue\n" {
		t.Errorf("stdout %q, stderr %q", a.Stdout, a.Stderr)
	}
	if got := reach(t, url, []string{cluster.DNSIP + ":53"}); !slices.Equal(got, []string{"closed"}) {
		t.Errorf("it reaches the resolver: %q", got)
	}
	if told := p.limits(t, url); told.Sandbox.Network != "none" {
		t.Errorf("its network is told to be %q", told.Sandbox.Network)
	}
}

// In another kernel the hostile programs are stopped as well.
func TestEscapeInGVisor(t *testing.T) {
	p := use(t, settings{"pool.replicas": 1, "sandbox.runtimeClassName": "gvisor"})
	url := p.agent(t, "hostile-gvisor")
	if a := run(t, url, "print(open('/proc/version').read())"); a.Isolation != "gvisor" {
		t.Fatalf("it runs in %q: %s", a.Isolation, a.Stdout)
	}
	suite(t, url, "../../escape", "-run", "^TestHostileProgramsElsewhere$")
}
