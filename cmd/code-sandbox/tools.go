package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/cmd/toolflags"
	"github.com/code-sandbox/code-sandbox/cmd/version"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/sidecar"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

// toolsOptions are the flags of "code-sandbox tools".
type toolsOptions struct {
	tools    toolflags.Options
	logLevel string
	agent    []string
}

func parseTools(args []string) (o toolsOptions, err error) {
	fs := flag.NewFlagSet("code-sandbox tools", flag.ContinueOnError)
	o.tools.Common(fs)
	fs.StringVar(&o.logLevel, "log-level", "error", "log at this level: debug, info, warn or error")
	fs.Usage = func() {
		_, _ = fmt.Fprint(fs.Output(), "code-sandbox tools [flags] -- COMMAND ...\n\n"+
			"Runs an agent as it is, with no sandbox, and says at its end where each of its tools would run.\n\n")
		fs.PrintDefaults()
	}
	args, o.agent = splitAgent(args)
	if err := flags.Parse(fs, args); err != nil {
		return o, err
	}
	if len(o.agent) == 0 || o.agent[0] == "" || fs.NArg() > 0 {
		return o, fmt.Errorf("%w: name the agent's command after --: code-sandbox tools -- python agent.py", errUsage)
	}
	if hclog.LevelFromString(o.logLevel) == hclog.NoLevel {
		return o, fmt.Errorf("%w: --log-level is %q; it can be debug, info, warn or error", errUsage, o.logLevel)
	}
	o.tools.Mode = string(toolproxy.Audit)
	policy := o.tools.Policy(time.Hour)
	if err := policy.Validate(); err != nil {
		return o, fmt.Errorf("%w: %w", errUsage, err)
	}
	return o, nil
}

// nowhere runs nothing: an agent that is only looked at needs no sandbox.
type nowhere struct{}

var errNowhere = errors.New("nothing is run in a sandbox while tools are only looked at")

func (nowhere) Run(context.Context, *wire.Request, wire.Sink) (*wire.Result, error) {
	return nil, api.Errorf(api.Forbidden, "%w", errNowhere)
}

func (nowhere) Call(context.Context, *wire.Copy, *wire.Request, wire.Sink) (*wire.Result, error) {
	return nil, api.Errorf(api.Forbidden, "%w", errNowhere)
}

// runTools runs an agent as it is, and prints what became known of its tools.
func runTools(o toolsOptions) error {
	log, registry := newLogger(o.logLevel), prometheus.NewRegistry()
	token := rand.Text()
	proxy, err := toolproxy.New(toolproxy.Options{Runner: nowhere{}, Policy: o.tools.Policy(time.Hour), Door: door(token), Logger: log.Named("tools"), Registry: registry})
	if err != nil {
		return err
	}
	server, err := sidecar.New(sidecar.Options{
		Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Runner: nowhere{}, Limits: sidecar.DefaultLimits(), Drain: agentDrain,
		Logger: log.Named("sidecar"), Registry: registry, Version: version.Of(), Mounts: mounts(proxy),
	})
	if err != nil {
		return err
	}
	folder, err := layRuntime()
	if err != nil {
		return err
	}
	env := withHook(os.Environ(), folder, agentEnv(o.tools, server.Addr(), token)...)
	code, err := beside(o.agent, env, server.Run)
	if err = errors.Join(err, removeRuntime(folder)); err != nil {
		return err
	}
	printTools(os.Stdout, proxy.Tools(), proxy.Frameworks())
	nameUnmatched(os.Stderr, &o.tools, proxy.Tools())
	return codeError(code)
}

// places are the words for decisions, as a reader has them.
var decisionPlaces = map[string]string{"sandboxed": "a sandbox", "stays": "the agent", "refused": "nowhere"}

func place(t toolproxy.Tool) string { return cmp.Or(decisionPlaces[t.Decision], t.Decision) }

// audited is how many calls were counted. Those of a tool that stays in the
// agent are not.
func audited(t toolproxy.Tool) string {
	if t.Decision == "stays" {
		return "-"
	}
	return strconv.FormatInt(t.Audited, 10)
}

// printTools prints where each tool would run, how often it was called, and what
// to change.
func printTools(w io.Writer, tools []toolproxy.Tool, frameworks []toolproxy.Framework) {
	say(w, "\n")
	if len(tools) == 0 {
		say(w, "No tool was found. Either the agent registered none, or its interpreter was started with -I, -E or -S, which skips the hook; "+
			"functions of hand-written dispatch are named with --tool-functions.\n")
	} else {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		say(table, "TOOL\tFRAMEWORK\tFUNCTION\tRUNS IN\tCALLS\tWHY, AND WHAT TO CHANGE\n")
		for _, t := range sorted(tools) {
			say(table, "%s\t%s\t%s:%s\t%s\t%s\t%s\n", t.Tool, t.Framework, t.Module, t.Qualname, place(t), audited(t), oneLine(t.Message))
		}
		_ = table.Flush() // to a terminal or a pipe: nobody is left to be told
	}
	for _, f := range frameworks {
		if f.State != "patched" {
			say(w, "\n%s %s (%s): %s\n", f.Name, f.Version, f.State, oneLine(f.Detail))
		}
	}
}

// printAudit prints what enforce mode would have made of the calls of each tool.
func printAudit(w io.Writer, tools []toolproxy.Tool) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(table, "\nTOOL\tFRAMEWORK\tWOULD RUN IN\tCALLS IN THE AGENT\n")
	for _, t := range sorted(tools) {
		say(table, "%s\t%s\t%s\t%s\n", t.Tool, t.Framework, place(t), audited(t))
	}
	_ = table.Flush()
}

// printSummary prints what became of the calls of each tool.
func printSummary(w io.Writer, tools []toolproxy.Tool, used []toolproxy.Used) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(table, "\nTOOL\tFRAMEWORK\tRUNS IN\tSANDBOXED CALLS\tREADY AT ONCE\tMEAN\tNOT RUN OR LOST\n")
	for _, t := range sorted(tools) {
		var u toolproxy.Used
		for _, one := range used {
			if one.Tool == t.Tool && one.Framework == t.Framework {
				u = one
			}
		}
		mean := "-"
		if u.Calls > 0 {
			mean = fmt.Sprintf("%.1f ms", float64(u.Took.Microseconds())/1000/float64(u.Calls))
		}
		say(table, "%s\t%s\t%s\t%d\t%d\t%s\t%d\n", t.Tool, t.Framework, place(t), u.Calls, u.Warm, mean, u.Failed)
	}
	_ = table.Flush()
}

// nameUnmatched names what was to be a tool and is none: a misspelt pattern
// would leave its functions in the agent.
func nameUnmatched(w io.Writer, o *toolflags.Options, tools []toolproxy.Tool) {
	if o.Mode == string(toolproxy.Off) {
		return // the hook lists nothing
	}
	for _, pattern := range o.Unmatched(tools) {
		say(w, "code-sandbox: --tool-functions %s matched nothing, so no function of it ran in a sandbox: either its module was never imported, "+
			"or it is the main one, or it defines no such function (a private one is named in full)\n", pattern)
	}
}

func sorted(tools []toolproxy.Tool) []toolproxy.Tool {
	tools = slices.Clone(tools)
	slices.SortStableFunc(tools, func(a, b toolproxy.Tool) int {
		return cmp.Or(cmp.Compare(a.Framework, b.Framework), cmp.Compare(a.Tool, b.Tool))
	})
	return tools
}

// oneLine keeps a foreign sentence from breaking the table.
func oneLine(s string) string {
	line := make([]rune, 0, len(s))
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			r = ' '
		}
		line = append(line, r)
	}
	return string(line)
}

// say prints. To a terminal or a pipe that is gone, nobody is left to be told.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
