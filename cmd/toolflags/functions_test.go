package toolflags

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/toolproxy"
)

func parse(args ...string) (*Options, error) {
	var o Options
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	o.Flags(fs)
	return &o, fs.Parse(args)
}

func TestFunctions(t *testing.T) {
	for _, good := range []string{"tools:*", "app.tools:fetch, app.more:get_[a-z]", ""} {
		if o, err := parse("--tool-functions", good); err != nil || o.ByHand() != (good != "") {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"tools", "tools.*", "tools:", ":*", "*:*", "tools:[", "tools:*,more"} {
		if _, err := parse("--tool-functions", bad); err == nil || !strings.Contains(err.Error(), "MODULE:GLOB") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestUnmatched(t *testing.T) {
	tool := func(module, name string) toolproxy.Tool {
		return toolproxy.Tool{Framework: "tool-functions", Module: module, Qualname: name, Tool: name}
	}
	f := func(setting, want string, tools ...toolproxy.Tool) {
		t.Helper()
		o, err := parse("--tool-functions", setting)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Unmatched(tools); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q, want %q", setting, got, want)
		}
	}
	f("tools:*,typo:*", "typo:*", tool("tools", "fetch"))
	f("tools:fetch,tools:fecth,tools:fecth", "tools:fecth", tool("tools", "fetch"))
	f("tools:[!a]*,tools:_secret,tools:_s*", "tools:_s*", tool("tools", "fetch"), tool("tools", "_secret"))
	f("tools:*", "tools:*")
	f("", "", tool("tools", "fetch"))
	// Another framework found its functions by itself.
	f("tools:*", "tools:*", toolproxy.Tool{Framework: "langchain", Module: "tools", Qualname: "fetch"})
	// A function that the module holds under another name.
	f("tools:alias", "", tool("tools", "fetch"))
	f("tools:alias,other:*", "other:*", tool("tools", "wrap.<locals>.inner"))
}
