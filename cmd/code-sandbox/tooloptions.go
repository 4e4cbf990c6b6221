package main

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

// toolOptions are the flags about tool calls. Their variables of the
// environment are those that the hook reads too.
type toolOptions struct {
	mode                   string
	include, exclude       flags.List
	context                string
	envAllow, allowResults flags.List
	functions, firstParty  flags.List
	timeout                seconds
	grants                 grants
}

func (o *toolOptions) flags(fs *flag.FlagSet) {
	fs.Var(&o.grants, "tool-grant", "let a tool reach hosts, by a proxy: `TOOL=HOST[:PORT][,HOST...]`; repeat it for more, or separate by spaces")
	fs.StringVar(&o.mode, "tools", "enforce", "tool calls: enforce (in a sandbox or not at all), audit (in the agent, told where they would run) or off")
	o.common(fs)
}

// common are the flags that do not say whether a sandbox is used.
func (o *toolOptions) common(fs *flag.FlagSet) {
	fs.Var(&o.include, "tools-include", "sandbox only tools that match these `globs`, comma-separated, on the name or module:qualname; others run in the agent")
	fs.Var(&o.exclude, "tools-exclude", "run tools that match these `globs` in the agent")
	fs.StringVar(&o.context, "tools-context", "", "tools that take an object of their framework: refuse (default) or inline, in the agent")
	fs.Var(&o.envAllow, "tool-env-allow", "let the values of these `variables` reach tools; !NAME even when it looks like a secret")
	fs.Var(&o.allowResults, "allow-results", "let tools return these `classes` though they steer the agent, such as Command")
	fs.Var(&o.functions, "tool-functions", "functions of hand-written dispatch that are tools: `module:glob`, comma-separated")
	fs.Var(&o.firstParty, "first-party", "`modules` under site-packages that are the agent's own")
	fs.Var(&o.timeout, "tool-timeout", "the longest a tool call may take, up to --max-timeout (default --max-timeout)")
}

// policy is what agents are told. A setting that is not given leaves the word
// to the agent's own environment.
func (o *toolOptions) policy(longest time.Duration) toolproxy.Policy {
	return toolproxy.Policy{
		Mode: toolproxy.Mode(o.mode), Include: o.include, Exclude: o.exclude, Context: o.context, EnvAllow: o.envAllow,
		AllowResults: o.allowResults, Timeout: time.Duration(o.timeout), MaxTimeout: longest, Grants: o.grants,
	}
}

// environment is what the hook in the agent is told before it can say hello.
func (o *toolOptions) environment() []string {
	env := []string{"CODE_SANDBOX_TOOLS=" + o.mode}
	for _, v := range []struct{ name, value string }{
		{"TOOLS_INCLUDE", o.include.String()}, {"TOOLS_EXCLUDE", o.exclude.String()}, {"TOOLS_CONTEXT", o.context},
		{"TOOL_ENV_ALLOW", o.envAllow.String()}, {"ALLOW_RESULTS", o.allowResults.String()},
		{"TOOL_FUNCTIONS", o.functions.String()}, {"FIRST_PARTY", o.firstParty.String()},
	} {
		if v.value != "" {
			env = append(env, "CODE_SANDBOX_"+v.name+"="+v.value)
		}
	}
	if o.timeout > 0 {
		env = append(env, fmt.Sprintf("CODE_SANDBOX_TOOL_TIMEOUT=%g", time.Duration(o.timeout).Seconds()))
	}
	return env
}

// seconds is a duration, or a plain number of seconds.
type seconds time.Duration

func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n > 0 && n < 1e6 {
		*s = seconds(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time such as 30s", text)
	}
	*s = seconds(d)
	return nil
}

func (s *seconds) String() string { return time.Duration(*s).String() }

// splitAgent cuts the agent's command off: what comes after the first "--".
func splitAgent(args []string) (ours, agent []string) {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i], args[i+1:]
	}
	return args, nil
}

// withHook is an environment with the hook's folder first on PYTHONPATH, and
// what more is set in place of what was.
func withHook(env []string, hook string, more ...string) []string {
	more = append(more, "PYTHONPATH="+hook)
	var kept []string
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if name == "PYTHONPATH" && value != "" {
			more[len(more)-1] += ":" + value // an empty segment would name the working directory
		}
		if !slices.ContainsFunc(more, func(m string) bool { return strings.HasPrefix(m, name+"=") }) {
			kept = append(kept, v)
		}
	}
	return append(kept, more...)
}
