// Package toolflags has the flags about tool calls, which the service of one
// machine and the sidecar on a cluster share. Their variables of the environment
// are those that the hook reads too.
package toolflags

import (
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

// Options are the flags' values.
type Options struct {
	Mode string
	// Grants are checked by Open beyond their form, where that is set.
	Grants Grants
	Open   func(toolproxy.Grant) error

	include, exclude       flags.List
	context                string
	envAllow, allowResults flags.List
	functions              functions
	firstParty             flags.List
	timeout                seconds
}

// Flags adds all flags to a set.
func (o *Options) Flags(fs *flag.FlagSet) {
	fs.Var(&opened{o}, "tool-grant", "let a tool reach hosts, by a proxy: `TOOL=HOST[:PORT][,HOST...]`; repeat it for more, or separate by spaces")
	fs.StringVar(&o.Mode, "tools", "enforce", "tool calls: enforce (in a sandbox or not at all), audit (in the agent, told where they would run) or off")
	o.Common(fs)
}

// Common adds the flags that do not say whether a sandbox is used.
func (o *Options) Common(fs *flag.FlagSet) {
	fs.Var(&o.include, "tools-include", "sandbox only tools that match these `globs`, comma-separated, on the name or module:qualname; others run in the agent")
	fs.Var(&o.exclude, "tools-exclude", "run tools that match these `globs` in the agent")
	fs.StringVar(&o.context, "tools-context", "", "tools that take an object of their framework: refuse (default) or inline, in the agent")
	fs.Var(&o.envAllow, "tool-env-allow", "let the values of these `variables` reach tools; !NAME even when it looks like a secret")
	fs.Var(&o.allowResults, "allow-results", "let tools return these `classes` though they steer the agent, such as Command")
	fs.Var(&o.functions, "tool-functions", "functions of hand-written dispatch that are tools: `module:glob`, comma-separated")
	fs.Var(&o.firstParty, "first-party", "`modules` under site-packages that are the agent's own")
	fs.Var(&o.timeout, "tool-timeout", "the longest a tool call may take, up to --max-timeout (default --max-timeout)")
}

// Policy is what agents are told. A setting that is not given leaves the word
// to the agent's own environment.
func (o *Options) Policy(longest time.Duration) toolproxy.Policy {
	return toolproxy.Policy{
		Mode: toolproxy.Mode(o.Mode), Include: o.include, Exclude: o.exclude, Context: o.context, EnvAllow: o.envAllow,
		AllowResults: o.allowResults, Timeout: time.Duration(o.timeout), MaxTimeout: longest, Grants: o.Grants,
	}
}

// Environment is what the hook in the agent is told before it can say hello.
func (o *Options) Environment() []string {
	env := []string{"CODE_SANDBOX_TOOLS=" + o.Mode}
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

// Asked is the time that --tool-timeout says, or 0.
func (o *Options) Asked() time.Duration { return time.Duration(o.timeout) }
