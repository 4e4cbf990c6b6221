package toolproxy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const foreseenTool = `{"tool":"add","framework":"f","module":"m","qualname":"add","line":1,"decision":"sandboxed","target":{"qualname":"add", "module":"m"}}`

// What a process tells of at its hello are the very copies that its calls are
// for, with what their tools are granted.
func TestAhead(t *testing.T) {
	var told []*wire.Copy
	var called *wire.Copy
	p := newProxy(t, func(_ context.Context, c *wire.Copy, _ *wire.Request, _ wire.Sink) (*wire.Result, error) {
		called = c
		return &wire.Result{Outcome: wire.OK, Call: []byte(`{"ok":true,"value":5}`)}, nil
	}, func(o *Options) {
		o.Ahead = func(c *wire.Copy) { told = append(told, c) }
		o.Policy.Grants = []Grant{{Tool: "add", Hosts: []string{"api.example:443"}}}
	})
	f := func(want int, tools ...string) {
		t.Helper()
		told = nil
		_, rest, _ := strings.Cut(bootJSON, `"tools":[`)
		_, rest, _ = strings.Cut(rest, "]")
		before, _, _ := strings.Cut(bootJSON, `"tools":[`)
		if _, err := serve(t, t.Context(), p, "/v1/tools/hello", before+`"tools":[`+strings.Join(tools, ",")+"]"+rest); err != nil {
			t.Fatal(err)
		}
		if len(told) != want {
			t.Errorf("%d copies were told of, not %d", len(told), want)
		}
	}
	f(1, foreseenTool)
	if _, err := serve(t, t.Context(), p, "/v1/tools/call", callJSON); err != nil {
		t.Fatal(err)
	}
	if told[0].Key() != called.Key() || told[0].Egress == nil {
		t.Errorf("told of %+v, called %+v", told[0], called)
	}
	// In what is listed there is no target.
	if listed, err := serve(t, t.Context(), p, "/v1/tools", ""); err != nil || strings.Contains(listed, `"target"`) {
		t.Errorf("%s, %v", listed, err)
	}
	// Tools that stay, that tell nothing, whose target is none; and more than are made.
	f(0, strings.Replace(foreseenTool, "sandboxed", "stays", 1))
	f(0, strings.Replace(foreseenTool, `{"qualname":"add", "module":"m"}`, `null`, 1), strings.Replace(foreseenTool, `{"qualname":"add", "module":"m"}`, `["x"]`, 1))
	var many []string
	for i := range 10 {
		many = append(many, strings.ReplaceAll(foreseenTool, `add"`, fmt.Sprintf(`add%d"`, i)))
	}
	f(maxAhead, many...)
	// What runs in the agent needs no copy.
	p.opts.Policy.Mode = Audit
	f(0, foreseenTool)
}

// What was foreseen does not stay in memory with the process's record, whoever
// wants to be told: no limit counts it.
func TestAheadIsNotKept(t *testing.T) {
	f := func(change func(*Options)) {
		t.Helper()
		p := newProxy(t, value, change)
		b, err := readBoot([]byte(strings.Replace(bootJSON, `"tools":[`, `"tools":[`+foreseenTool+",", 1)))
		if err != nil || len(b.ahead) != 1 {
			t.Fatalf("%d copies are foreseen, %v", len(b.ahead), err)
		}
		if p.ahead(b); b.ahead != nil {
			t.Errorf("%s is kept", b.ahead[0].target)
		}
	}
	told := func(*wire.Copy) {}
	f(func(o *Options) { o.Ahead = told })
	f(func(o *Options) { o.Ahead, o.Policy.Mode = told, Audit })
	f(func(*Options) {}) // on one machine nobody is told
}
