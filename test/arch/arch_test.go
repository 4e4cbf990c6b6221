// Package arch holds the walls of the repository as a test: who may import
// whom, and why.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/code-sandbox/code-sandbox/"

// rule forbids the packages below from to depend on the packages below to.
// direct looks at their own import statements only.
type rule struct {
	from, to string
	except   []string
	// not are packages below from that are free.
	not    string
	direct bool
	why    string
}

var rules = []rule{
	{from: "pool/wire", to: module, why: "it defines the words that everything else speaks"},
	{from: "pool/wire", to: "*", why: "it is read beside hostile code: standard library only"},
	{from: "pool/runner", to: "*", except: []string{module + "pool/wire", module + "pool/api", module + "pool/runner"},
		why: "it stands beside hostile code: standard library only"},
	{from: "pool/api", to: module, except: []string{module + "pool/wire", module + "pool/api"}, why: "a client needs no pool"},
	{from: "pool", to: module + "sidecar", why: "the pool does not know who calls it"},
	{from: "pool", to: module + "toolproxy", why: "the pool does not know who calls it"},
	{from: "sidecar", to: module + "pool", except: []string{module + "pool/api", module + "pool/wire"}, why: "it is multiplied by every agent pod"},
	{from: "sidecar", to: module + "toolproxy", why: "the two stand side by side"},
	{from: "sidecar", to: "k8s.io/", why: "it is multiplied by every agent pod"},
	{from: "toolproxy", to: module + "pool", except: []string{module + "pool/api", module + "pool/wire"}, why: "it is multiplied by every agent pod"},
	{from: "toolproxy", to: module + "sidecar", why: "the two stand side by side"},
	{from: "toolproxy", to: "k8s.io/", why: "it is multiplied by every agent pod"},
	{from: "injector", to: module + "pool", except: []string{module + "pool/wire"}, why: "it decides over pods, not over runs"},
	{from: "injector", to: module + "sidecar", why: "it injects an image, not a package"},
	{from: "pool/egress", to: module, except: []string{module + "pool/egress", module + "pool/wire"}, why: "who may reach what depends on the grant and the address alone"},
	{from: "cmd/code-sandbox", to: "k8s.io/", why: "one machine has no cluster"},
	{from: "pool/server", to: "k8s.io/", why: "who a token stands for, it asks an interface"},
	{from: "cmd/sidecar", to: module + "pool", except: []string{module + "pool/api", module + "pool/wire"}, why: "it calls a pool and contains none"},
	{from: "cmd/runner", to: "*", except: []string{module + "pool/wire", module + "pool/api", module + "pool/runner", module + "toolproxy/hook"},
		why: "it stands beside hostile code: standard library only"},
	{from: "cmd/sidecar", to: "k8s.io/", why: "it is multiplied by every agent pod"},
	{from: "", to: module + "cmd/", not: "cmd", direct: true, why: "commands are where everything ends"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func load(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps=false", "-json=ImportPath,Imports,Deps", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cannot list the packages: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestWalls(t *testing.T) {
	packages := load(t)
	if len(packages) < 8 {
		t.Fatalf("only %d packages were found", len(packages))
	}
	for _, r := range rules {
		for _, p := range packages {
			path := strings.TrimPrefix(p.ImportPath, module)
			if !below(path, r.from) || r.not != "" && below(path, r.not) {
				continue
			}
			for _, bad := range r.broken(p) {
				t.Errorf("%s must not depend on %s: %s", p.ImportPath, bad, r.why)
			}
		}
	}
}

// A rule that nothing could break would be no wall.
func TestRulesCanBreak(t *testing.T) {
	f := func(r rule, imports string, want bool) {
		t.Helper()
		p := pkg{ImportPath: module + r.from, Imports: []string{imports}, Deps: []string{imports}}
		if got := len(r.broken(p)) > 0; got != want {
			t.Errorf("%q importing %q: broken is %v", r.from, imports, got)
		}
	}
	// The runner may not have a library, but may have the words.
	f(rules[2], "github.com/valyala/fasthttp", true)
	f(rules[2], module+"pool/wire", false)
	f(rules[2], "encoding/json", false)
	// The sidecar may speak to a pool, but not contain one.
	f(rules[6], module+"pool", true)
	f(rules[6], module+"pool/local", true)
	f(rules[6], module+"pool/api", false)
}

func (r rule) broken(p pkg) []string {
	deps := p.Deps
	if r.direct {
		deps = p.Imports
	}
	var bad []string
	for _, dep := range deps {
		if r.forbids(dep) {
			bad = append(bad, dep)
		}
	}
	return bad
}

func (r rule) forbids(dep string) bool {
	for _, e := range r.except {
		if below(dep, e) {
			return false
		}
	}
	if r.to == "*" { // anything that is not the standard library
		first, _, _ := strings.Cut(dep, "/")
		return strings.Contains(first, ".")
	}
	if strings.HasSuffix(r.to, "/") {
		return strings.HasPrefix(dep, r.to)
	}
	return below(dep, r.to)
}

// below says whether path is root or inside it.
func below(path, root string) bool {
	return root == "" || path == root || strings.HasPrefix(path, root+"/")
}
