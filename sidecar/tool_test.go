package sidecar

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

func TestTool(t *testing.T) {
	s := start(t, echo)
	f := func(query string, at ...string) {
		t.Helper()
		r := do(t, "GET", s.url+"/tool"+query, nil)
		var tool map[string]any
		if err := json.Unmarshal([]byte(r.body), &tool); err != nil || r.status != 200 {
			t.Fatalf("%d %v %s", r.status, err, r.body)
		}
		for _, name := range at[:len(at)-1] {
			tool = tool[name].(map[string]any)
		}
		schema, _ := tool[at[len(at)-1]].(map[string]any)
		if tool["name"] != "run_python" || tool["description"] != s.Limits.describe() || schema["type"] != "object" {
			t.Errorf("%s: %s", query, r.body)
		}
		// Whatever the schema lets a model say is known here, and no more.
		for name := range schema["properties"].(map[string]any) {
			if !request.Known(name) {
				t.Errorf("%s: the schema has %q", query, name)
			}
		}
	}
	f("", "function", "parameters")
	f("?format=openai", "function", "parameters")
	f("?format=anthropic", "input_schema")
	f("?format=mcp", "inputSchema")
	if e := do(t, "GET", s.url+"/tool?format=xml", nil).error(t); e.Code != api.BadRequest || !strings.Contains(e.Message, "openai, anthropic or mcp") {
		t.Error(e)
	}
}

// The description says what is so, and is silent about what is not known.
func TestDescription(t *testing.T) {
	f := func(sandbox SandboxLimits, want string) {
		t.Helper()
		l := DefaultLimits()
		l.Sandbox = sandbox
		if got := l.describe(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	const start = "Run a Python program in a new sandbox that is used once and then destroyed: no variable, file or package is kept from one call to the next."
	const answer = "The answer has stdout, stderr, the exit code, the repr of the last statement when it is an expression, and why the program ended."
	// All is known.
	f(SandboxLimits{Isolation: "namespaces", PythonVersion: "3.13.1", Preload: []string{"numpy", "pandas"}, Network: "dns",
		MemoryBytes: 512 << 20, DiskBytes: 1536 << 20, Processes: 128, OutputBytes: 256 << 10, FilesBytes: 10 << 20},
		start+" The interpreter is Python 3.13.1. Besides the standard library these packages are loaded: numpy, pandas."+
			" There is no network: only DNS lookups work, so nothing can be downloaded or installed."+
			" A program may run 30 seconds unless timeout_seconds says otherwise, and 300 at most, with 512 MiB of memory, 1.5 GiB of disk, 128 processes and threads. "+
			answer+" Of each output 256 KiB are kept, the head and the tail."+
			" Files written to the working directory come back with the answer, and so do open matplotlib figures, as PNG; together up to 10 MiB.")
	// No network at all.
	f(SandboxLimits{Network: "none"}, start+" There is no network, not even DNS, so nothing can be downloaded or installed."+
		" A program may run 30 seconds unless timeout_seconds says otherwise, and 300 at most. "+answer+
		" Files written to the working directory come back with the answer, and so do open matplotlib figures, as PNG.")
	// No isolation: no promise.
	f(SandboxLimits{Isolation: "none", Network: "host"}, start+
		" A program may run 30 seconds unless timeout_seconds says otherwise, and 300 at most. "+answer+
		" Files written to the working directory come back with the answer, and so do open matplotlib figures, as PNG."+
		" Here the program is not isolated from the machine it runs on.")
}

func TestLimits(t *testing.T) {
	s := start(t, echo, func(o *Options) {
		o.Limits.Request.MaxTimeout = 60.5
		o.Limits.Sandbox = SandboxLimits{Isolation: "namespaces"}
	})
	r := do(t, "GET", s.url+"/limits", nil)
	for _, want := range []string{`"version":"test"`, `"code_bytes":1048576`, `"max_timeout_seconds":60.5`, `"isolation":"namespaces"`, `"preload":[]`, `"idempotency_seconds":600`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s in %s", want, r.body)
		}
	}
}
