package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/toolproxy"
)

func TestWithHook(t *testing.T) {
	f := func(env, want string, more ...string) {
		t.Helper()
		got := withHook(strings.Fields(env), "/hook", more...)
		if strings.Join(got, " ") != want {
			t.Errorf("%q", got)
		}
	}
	// What was there comes after us; an empty path makes no empty segment.
	f("A=1 PYTHONPATH=/mine:/other", "A=1 PYTHONPATH=/hook:/mine:/other")
	f("PYTHONPATH= A=1", "A=1 PYTHONPATH=/hook")
	f("A=1", "A=1 PYTHONPATH=/hook")
	// What is set stands in place of what was, not of what is called alike.
	f("URL=old URLS=kept", "URLS=kept URL=new PYTHONPATH=/hook", "URL=new")
}

func TestSplitAgent(t *testing.T) {
	f := func(args, ours, agent string) {
		t.Helper()
		a, b := splitAgent(strings.Fields(args))
		if strings.Join(a, " ") != ours || strings.Join(b, " ") != agent {
			t.Errorf("%q, %q", a, b)
		}
	}
	f("--target 2 -- python a.py -- x", "--target 2", "python a.py -- x")
	f("--target 2", "--target 2", "")
	f("-- python", "", "python")
}

// The flags, and the variables in their place, reach policy and agent alike.
func TestToolFlags(t *testing.T) {
	t.Setenv("CODE_SANDBOX_TOOL_TIMEOUT", "2.5")
	t.Setenv("CODE_SANDBOX_TOOLS_EXCLUDE", "a,b")
	o, err := parseLocal([]string{"--tools-context", "inline", "--tool-env-allow", "TZ,!KEY", "--", "python", "agent.py"})
	if err != nil {
		t.Fatal(err)
	}
	p := o.tools.Policy(o.maxTimeout)
	if p.Mode != toolproxy.Enforce || p.Timeout != 2500*time.Millisecond || !slices.Equal(p.Exclude, []string{"a", "b"}) || p.Context != "inline" {
		t.Errorf("%+v", p)
	}
	want := []string{"CODE_SANDBOX_TOOLS=enforce", "CODE_SANDBOX_TOOLS_EXCLUDE=a,b", "CODE_SANDBOX_TOOLS_CONTEXT=inline",
		"CODE_SANDBOX_TOOL_ENV_ALLOW=TZ,!KEY", "CODE_SANDBOX_TOOL_TIMEOUT=2.5"}
	if got := o.tools.Environment(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// An agent's service takes any port; another keeps its own.
	if o.listen != "127.0.0.1:0" || o.adminListen != "127.0.0.1:0" || o.drain != agentDrain {
		t.Errorf("%+v", o)
	}
	if o, err = parseLocal(nil); err != nil || o.listen != "127.0.0.1:8900" || o.adminListen != "127.0.0.1:8902" {
		t.Errorf("%+v %v", o, err)
	}
	for _, bad := range [][]string{{"--tools", "maybe"}, {"--tools-context", "x"}, {"--tool-timeout", "0"}, {"--tool-timeout", "1h"}, {"python", "agent.py"},
		{"--tool-functions", "tools:*"}, {"--tool-functions", "tools.*", "--", "python"}, {"--"}, {"--", ""}} {
		if _, err := parseLocal(bad); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

// Tool calls have a token: the environment's, or a random one beside an agent.
// The variable is not there for what is started from here.
func TestToken(t *testing.T) {
	f := func(given string, ok func(string) bool, args ...string) {
		t.Helper()
		t.Setenv("CODE_SANDBOX_TOKEN", given)
		o, err := parseLocal(args)
		if _, set := os.LookupEnv("CODE_SANDBOX_TOKEN"); err != nil || !ok(o.token) || set {
			t.Errorf("%q, %v, %v", o.token, err, set)
		}
	}
	random := map[string]bool{}
	isNew := func(got string) bool {
		again := random[got]
		random[got] = true
		return !again && toolproxy.CheckToken(got) == nil
	}
	f("", isNew, "--", "python")
	f("", isNew, "--", "python")
	f("", func(got string) bool { return got == "" })
	given := "0123456789abcdef"
	f(given, func(got string) bool { return got == given })
	f(given, func(got string) bool { return got == given }, "--", "python")
	for _, bad := range []string{"short", given + "\r\nX: y", given + "é"} {
		t.Setenv("CODE_SANDBOX_TOKEN", bad)
		if _, err := parseLocal(nil); err == nil || !strings.Contains(err.Error(), "CODE_SANDBOX_TOKEN") || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A pattern that matched nothing is named, also when others matched.
func TestUnmatchedIsNamed(t *testing.T) {
	tools := []toolproxy.Tool{{Framework: "tool-functions", Module: "tools", Qualname: "fetch"}}
	f := func(mode, want string) {
		t.Helper()
		o, err := parseLocal([]string{"--tools", mode, "--tool-functions", "tools:*,toolz:*", "--", "python", "agent.py"})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		nameUnmatched(&b, &o.tools, tools)
		if got := b.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") > 1 || want == "" && got != "" {
			t.Errorf("%s: %q", mode, got)
		}
	}
	f("enforce", "code-sandbox: --tool-functions toolz:* matched nothing")
	f("audit", "code-sandbox: --tool-functions toolz:* matched nothing")
	f("off", "")

}

func TestRuntimeFolder(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	self := startTime(os.Getpid())
	kept := []string{
		fmt.Sprintf("%s%d-%d-1", runtimePrefix, os.Getpid(), self), // of a process that lives
		"code-sandbox-other",
		runtimePrefix + "x", // not a name of ours
	}
	stale := []string{fmt.Sprintf("%s%d-%d-1", runtimePrefix, os.Getpid(), self+1), runtimePrefix + "999999999-5-1"}
	for _, name := range append(slices.Clone(kept), stale...) {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := layRuntime()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(folder)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "sitecustomize.py")); err != nil {
		t.Error(err)
	}
	if err := removeRuntime(folder); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != len(kept) {
		t.Errorf("left are %v, %v", entries, err)
	}
}

func TestTables(t *testing.T) {
	tools := []toolproxy.Tool{
		{Tool: "b", Framework: "f", Module: "m", Qualname: "b", Decision: "refused", Message: "why\nnot\x1b[2J"},
		{Tool: "a", Framework: "f", Module: "m", Qualname: "a", Decision: "sandboxed"},
	}
	var b bytes.Buffer
	printTools(&b, tools, []toolproxy.Framework{{Name: "x", Version: "2", State: "unknown_shape", Detail: "d"}})
	lines := strings.Split(b.String(), "\n")
	if len(lines) < 6 || !strings.HasPrefix(lines[2], "a ") || !strings.Contains(lines[3], "nowhere    0      why not [2J") || !strings.Contains(b.String(), "x 2 (unknown_shape): d") {
		t.Errorf("%q", lines)
	}
	b.Reset()
	tools[1].Audited = 3
	printAudit(&b, tools)
	if !strings.Contains(b.String(), "a     f          a sandbox     3\n") || !strings.Contains(b.String(), "b     f          nowhere       0\n") {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	printSummary(&b, tools, []toolproxy.Used{{Tool: "a", Framework: "f", Calls: 2, Warm: 1, Took: 3 * time.Millisecond}})
	if !strings.Contains(b.String(), "a     f          a sandbox  2                1              1.5 ms") {
		t.Errorf("%s", b.String())
	}
}
