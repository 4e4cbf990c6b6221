package toolproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func TestParseGrant(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		g, err := ParseGrant(text)
		if (err != nil) != (want == "") || err == nil && fmt.Sprint(g) != want {
			t.Errorf("%q: %v, %v", text, g, err)
		}
	}
	f("search=api.example:443,10.0.0.5:80", "{search [api.example:443 10.0.0.5:80]}")
	f("app.tools:*=api.example", "{app.tools:* [api.example:80 api.example:443]}")
	for _, bad := range []string{"", "search", "=api.example", "search=", "search=a,,b", "[=api.example", "search=*"} {
		f(bad, "")
	}
}

// A tool gets what its grants say, by its name or its place, and no other tool does.
func TestGrants(t *testing.T) {
	p := Policy{Grants: []Grant{{"search", []string{"b:443", "a:443"}}, {"app:s*", []string{"a:443", "c:80"}}, {"other", []string{"d:80"}}}}
	f := func(tool, target, want string) {
		t.Helper()
		got := ""
		if e := p.egress(tool, json.RawMessage(target)); e != nil {
			got = e.Tool + " " + strings.Join(e.Hosts, " ")
		}
		if got != want {
			t.Errorf("%s %s: %q", tool, target, got)
		}
	}
	f("search", `{"module":"x","qualname":"search"}`, "search a:443 b:443")
	f("search", `{"module":"app","qualname":"search"}`, "search a:443 b:443 c:80")
	f("find", `{"module":"app","qualname":"sift"}`, "app:s* a:443 c:80")
	f("add", `{"module":"x","qualname":"add"}`, "")
	f("research", `{"module":"x","qualname":"search"}`, "")
	f("search", `[`, "")
}

// The copy of a granted tool is another than one without, and the hosts that were
// denied are in the answer.
func TestGrantedCall(t *testing.T) {
	var copies []*wire.Copy
	p := newProxy(t, func(ctx context.Context, c *wire.Copy, r *wire.Request, s wire.Sink) (*wire.Result, error) {
		copies = append(copies, c)
		res, err := value(ctx, c, r, s)
		res.EgressDenied = []string{"x.example:443"}
		return res, err
	}, func(o *Options) { o.Policy.Grants = []Grant{{"add", []string{"api.example:443"}}} })
	hello(t, p)
	call := func(body string) string {
		t.Helper()
		got, err := serve(t, t.Context(), p, "/v1/tools/call", body)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := call(callJSON); !strings.Contains(got, `"egress_denied":["x.example:443"]`) {
		t.Errorf("%s", got)
	}
	call(strings.Replace(callJSON, `"tool":"add"`, `"tool":"sub"`, 1))
	if copies[0].Egress == nil || copies[1].Egress != nil || copies[0].Key() == copies[1].Key() {
		t.Errorf("%+v %+v", copies[0].Egress, copies[1].Egress)
	}
}
