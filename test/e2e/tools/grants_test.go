//go:build e2e

package tools

import (
	"context"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/test/cluster"
)

// asked is one call of a tool, how what it says begins, and what is in it.
type asked struct {
	call         []any
	begins, says string
}

func fetches(url, begins, says string) asked {
	return asked{call("fetch", map[string]any{"url": url}), begins, says}
}

func dials(host string, port int, says string) asked {
	return asked{call("dial", map[string]any{"host": host, "port": port}), "no: ", says}
}

// asks runs an agent with those grants, and compares what its tools say.
func (p *platform) asks(t *testing.T, name, grants string, all ...asked) {
	t.Helper()
	var wanted []any
	for _, a := range all {
		wanted = append(wanted, a.call)
	}
	pod := p.agent(name, calls(t, wanted...)...)
	if grants != "" {
		annotate(pod, "grants", grants)
	}
	r := p.run(t, pod)
	for i, a := range all {
		if !strings.HasPrefix(r.Said[i], a.begins) || !strings.Contains(r.Said[i], a.says) {
			t.Errorf("%s: %v said %q, not %q with %q", name, a.call, r.Said[i], a.begins, a.says)
		}
	}
}

// A granted tool reaches its hosts by the proxy, and nothing beside it: no other
// host, not the API server, the pool, the node or a metadata service, whether a
// grant names it or a name leads there. Without a grant the same tool reaches
// nothing.
func (p *platform) testGrants(t *testing.T) {
	pools, err := p.system.Parts(t.Context(), "pool")
	if err != nil || len(pools) == 0 {
		t.Fatalf("%v, %v", pools, err)
	}
	pool := pools[0].Status.PodIP + ":8902"
	grants := "fetch=world.example:80,kubernetes.default.svc.cluster.local:443," + cluster.APIIP + ":443," + cluster.NodeIP + ":6443," + pool + "," + cluster.MetaIP + ":80"
	p.asks(t, "granted", grants,
		fetches("http://world.example/", "world", ""),
		// What no grant names, by name and by the address of a granted host.
		fetches("http://other.example/", "no: ", `not granted to tool "fetch"`),
		fetches("http://"+cluster.WorldIP+"/", "no: ", `not granted to tool "fetch"`),
		// The cluster's own, named by the grant itself or behind a granted name.
		fetches("http://kubernetes.default.svc.cluster.local:443/", "no: ", "closed by the settings"),
		fetches("http://"+cluster.APIIP+":443/", "no: ", "closed by the settings"),
		fetches("http://"+cluster.NodeIP+":6443/", "no: ", "is private"),
		fetches("http://"+pool+"/metrics", "no: ", "closed by the settings"),
		fetches("http://"+cluster.MetaIP+"/latest/meta-data", "no: ", "where clouds serve credentials"),
		// Past the proxy there is nothing.
		dials(cluster.WorldIP, 80, ""), dials(cluster.APIIP, 443, ""),
	)
	p.asks(t, "not-granted", "", fetches("http://world.example/", "no: ", ""), dials("127.0.0.1", 3128, "refused"))
	// Another tool's grant is not this one's.
	p.asks(t, "granted-elsewhere", "search=world.example:80", fetches("http://world.example/", "no: ", ""))
	p.system.Eventually("the pool counts what its proxy did", func(ctx context.Context) error {
		return p.counts(ctx, `code_sandbox_egress_requests_total{outcome="allowed",tool="fetch"} 1`)
	})
}
