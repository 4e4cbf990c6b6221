package main

import (
	"bytes"
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
	p := o.tools.policy(o.maxTimeout)
	if p.Mode != toolproxy.Enforce || p.Timeout != 2500*time.Millisecond || !slices.Equal(p.Exclude, []string{"a", "b"}) || p.Context != "inline" {
		t.Errorf("%+v", p)
	}
	want := []string{"CODE_SANDBOX_TOOLS=enforce", "CODE_SANDBOX_TOOLS_EXCLUDE=a,b", "CODE_SANDBOX_TOOLS_CONTEXT=inline",
		"CODE_SANDBOX_TOOL_ENV_ALLOW=TZ,!KEY", "CODE_SANDBOX_TOOL_TIMEOUT=2.5"}
	if got := o.tools.environment(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// An agent's service takes any port; another keeps its own.
	if o.listen != "127.0.0.1:0" || o.adminListen != "127.0.0.1:0" || o.drain != agentDrain {
		t.Errorf("%+v", o)
	}
	if o, err = parseLocal(nil); err != nil || o.listen != "127.0.0.1:8900" || o.adminListen != "127.0.0.1:8902" {
		t.Errorf("%+v %v", o, err)
	}
	for _, bad := range [][]string{{"--tools", "maybe"}, {"--tools-context", "x"}, {"--tool-timeout", "0"}, {"--tool-timeout", "1h"}, {"python", "agent.py"}} {
		if _, err := parseLocal(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
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
