package main

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/cmd/toolflags"
	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/local"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// readyBound is how long the first sandbox may take: imports, mostly.
const readyBound = 2 * time.Minute

// maxTemplates is how many kinds of sandboxes are kept warm: run_python's, and
// one for each tool of each agent process.
const maxTemplates = 128

// minTimeout is the shortest timeout that a run can have.
const minTimeout = time.Duration(request.MinTimeout * float64(time.Second))

// localOptions are the flags of "code-sandbox local".
type localOptions struct {
	listen, adminListen string
	hosts               flags.List
	target, max         int
	python              string
	preload             flags.List
	freshInterpreter    bool
	isolation           string
	dns                 string
	memory, disk        flags.Size
	processes           int
	output, files       flags.Size
	timeout, maxTimeout time.Duration
	drain               time.Duration
	logLevel            string
	tools               toolflags.Options
	summary             bool
	token               string          // no flag, since everybody can read a command line: what tool calls must show
	agent               []string        // what to run beside the service
	hurry               <-chan struct{} // no flag: closed when drain is to end at once
}

func parseLocal(args []string) (localOptions, error) {
	limits := wire.DefaultLimits()
	o := localOptions{memory: flags.Size(limits.MemoryBytes), disk: flags.Size(limits.DiskBytes), output: flags.Size(limits.OutputBytes), files: flags.Size(limits.FilesBytes)}
	fs := flag.NewFlagSet("code-sandbox local", flag.ContinueOnError)
	fs.StringVar(&o.listen, "listen", "", "serve the API on this `address` (default 127.0.0.1:8900; with an agent a free port)")
	fs.StringVar(&o.adminListen, "admin-listen", "", "serve metrics, health and readiness on this `address` (default 127.0.0.1:8902; with an agent a free port)")
	fs.Var(&o.hosts, "hosts", "answer to these host `names` too, comma-separated; needed when --listen is not a loopback address")
	fs.IntVar(&o.target, "target", 3, "keep this many sandboxes warm at least; demand raises it, up to --max")
	fs.IntVar(&o.max, "max", max(16, 4*runtime.NumCPU()), "never have more than this many sandboxes, warm and running; others wait")
	fs.StringVar(&o.python, "python", "python3", "run programs with this CPython, 3.8 or newer: a command or a `path`; its environment's packages come along")
	fs.Var(&o.preload, "preload", "import these `modules` ahead of time, comma-separated (default: numpy and pandas where installed; \"none\" for none)")
	fs.BoolVar(&o.freshInterpreter, "fresh-interpreter", false, "boot an interpreter per sandbox instead of forking one: own hash seed and address layout, at about half the throughput")
	fs.StringVar(&o.isolation, "isolation", local.Namespaces, "what stands around a program: namespaces, or none, which is for programs you trust as you trust their author")
	fs.StringVar(&o.dns, "dns", "relay", "what a program can look up: relay (this machine's name servers) or none")
	fs.Var(&o.memory, "memory", "memory of one sandbox, its files included")
	fs.Var(&o.disk, "disk", "files of one sandbox: working directory, /tmp and /dev/shm together; they count as memory")
	fs.IntVar(&o.processes, "processes", limits.Processes, "processes and threads of one sandbox")
	fs.Var(&o.output, "output", "kept of stdout, and again of stderr; the rest is counted and left out")
	fs.Var(&o.files, "files", "content of all files of one answer")
	o.timeout, o.maxTimeout, o.drain = 30*time.Second, limits.MaxRun, 30*time.Second
	fs.Var((*flags.Duration)(&o.timeout), "timeout", "a run's timeout when it names none; a `time` like 30s, or seconds")
	fs.Var((*flags.Duration)(&o.maxTimeout), "max-timeout", "the longest timeout a run may ask for; a `time` like 5m, or seconds")
	fs.Var((*flags.Duration)(&o.drain), "drain", "what runs in flight get to end when the service stops, unless a second signal ends them at once; a `time` like 30s, or seconds")
	fs.StringVar(&o.logLevel, "log-level", "warn", "log at this level: debug, info, warn or error")
	fs.BoolVar(&o.summary, "summary", false, "with an agent: print at its end which tools ran where")
	o.tools.Open = open
	o.tools.Flags(fs)
	args, o.agent = splitAgent(args)
	fs.Usage = func() {
		_, _ = fmt.Fprint(fs.Output(), "code-sandbox local [flags] [-- AGENT ...]\n\n")
		fs.PrintDefaults()
	}
	if err := flags.Parse(fs, args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%w: %q is not a flag of code-sandbox local; an agent's command goes after --", errUsage, fs.Arg(0))
	}
	o.places()
	if err := o.takeToken(); err != nil {
		return o, err
	}
	return o, o.validate()
}

// places fills in where to listen. An agent's service is its own: any port
// will do, and nobody waits for its runs when the agent has ended.
func (o *localOptions) places() {
	api, admin := "127.0.0.1:8900", "127.0.0.1:8902"
	if len(o.agent) > 0 {
		api, admin = "127.0.0.1:0", "127.0.0.1:0"
		o.drain = min(o.drain, agentDrain)
	}
	o.listen, o.adminListen = cmp.Or(o.listen, api), cmp.Or(o.adminListen, admin)
}

func (o *localOptions) validate() error {
	switch {
	case o.agent != nil && (len(o.agent) == 0 || o.agent[0] == ""):
		return fmt.Errorf("%w: after -- comes an agent's command, and it is empty: name one, as in code-sandbox local -- python agent.py, or leave -- out", errUsage)
	case o.dns != "relay" && o.dns != "none":
		return fmt.Errorf("%w: --dns is %q; it can be relay or none", errUsage, o.dns)
	case o.isolation != local.Namespaces && o.isolation != local.BareIsolation:
		return fmt.Errorf("%w: --isolation is %q; it can be namespaces or none", errUsage, o.isolation)
	case o.max < 1:
		return fmt.Errorf("%w: --max is %d; it must be at least 1", errUsage, o.max)
	case o.summary && len(o.agent) == 0:
		return fmt.Errorf("%w: --summary is for an agent, and there is none: its command goes after --", errUsage)
	case o.tools.ByHand() && len(o.agent) == 0:
		return fmt.Errorf("%w: --tool-functions is for an agent, and there is none: its command goes after --", errUsage)
	case len(o.hosts) == 0 && !loopback(o.listen):
		return fmt.Errorf("%w: --listen is %s, which other machines can reach: whoever reaches it can run programs here. "+
			"If you want that, set --hosts to the names it is asked for by, such as --hosts box.internal:8900", errUsage, o.listen)
	case o.target < 1 || o.target > o.max:
		return fmt.Errorf("%w: --target is %d; it can be 1 to --max, which is %d", errUsage, o.target, o.max)
	case o.timeout < minTimeout || o.timeout > max(o.maxTimeout, minTimeout):
		return fmt.Errorf("%w: --timeout is %s; it can be %s to --max-timeout, which is %s", errUsage, o.timeout, minTimeout, o.maxTimeout)
	case o.drain < 0:
		return fmt.Errorf("%w: --drain is %s; it cannot be negative", errUsage, o.drain)
	case hclog.LevelFromString(o.logLevel) == hclog.NoLevel:
		return fmt.Errorf("%w: --log-level is %q; it can be debug, info, warn or error", errUsage, o.logLevel)
	}
	if err := o.validateLimits(); err != nil {
		return err
	}
	policy := o.tools.Policy(o.maxTimeout)
	if err := policy.Validate(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return nil
}

// loopback says whether only this machine can reach an address to listen on.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err != nil || host == "localhost" || ip != nil && ip.IsLoopback() // no address at all is told by the listener
}

// validateLimits tries the limits one by one, to name the flag of a wrong one.
func (o *localOptions) validateLimits() error {
	const unit = "; sizes have a unit, like 512MiB or 64KiB, or are in bytes"
	mine := o.limits()
	for _, limit := range []struct {
		flag, hint string
		set        func(*wire.Limits)
	}{
		{"memory", unit, func(l *wire.Limits) { l.MemoryBytes = mine.MemoryBytes }},
		{"disk", unit, func(l *wire.Limits) { l.DiskBytes = mine.DiskBytes }},
		{"processes", "", func(l *wire.Limits) { l.Processes = mine.Processes }},
		{"output", unit, func(l *wire.Limits) { l.OutputBytes = mine.OutputBytes }},
		{"files", unit, func(l *wire.Limits) { l.FilesBytes = mine.FilesBytes }},
		{"max-timeout", "", func(l *wire.Limits) { l.MaxRun = mine.MaxRun }},
	} {
		l := wire.DefaultLimits()
		limit.set(&l)
		if err := l.Validate(); err != nil {
			return fmt.Errorf("%w: --%s: %w%s", errUsage, limit.flag, err, limit.hint)
		}
	}
	return o.validateMemory(machineMemory())
}

// validateMemory refuses what this machine cannot give: such a limit would stop
// nothing. A sandbox's disk is memory. The defaults are for machines of any size.
func (o *localOptions) validateMemory(machine int64) error {
	usual := wire.DefaultLimits()
	for _, limit := range []struct {
		flag  string
		value flags.Size
		usual int64
	}{{"memory", o.memory, usual.MemoryBytes}, {"disk", o.disk, usual.DiskBytes}} {
		if int64(limit.value) > max(machine, limit.usual) {
			return fmt.Errorf("%w: --%s is %s, and this machine has %d MiB of memory: it can be that much at most, and should be a part of it",
				errUsage, limit.flag, limit.value.String(), machine>>20)
		}
	}
	return nil
}

func machineMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return math.MaxInt64 // it never fails, and no limit is wrong for it
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// remarks are what to know of the addresses that others can reach.
func (o *localOptions) remarks() (all []string) {
	if !loopback(o.listen) {
		all = append(all, fmt.Sprintf("--listen is %s, which other machines can reach: whoever reaches it and asks for a host of --hosts can run programs here, without a password", o.listen))
	}
	if !loopback(o.adminListen) {
		all = append(all, fmt.Sprintf("--admin-listen is %s, which other machines can reach: whoever reaches it can read metrics, health and readiness, without a password; of programs there is nothing in them", o.adminListen))
	}
	return all
}

func (o *localOptions) limits() wire.Limits {
	l := wire.DefaultLimits()
	l.MemoryBytes, l.DiskBytes, l.FilesBytes = int64(o.memory), int64(o.disk), int64(o.files)
	l.OutputBytes, l.Processes, l.MaxRun = int(o.output), o.processes, o.maxTimeout
	return l
}

// template is what every run of this service gets.
func (o *localOptions) template(python local.Python) pool.Template {
	preload := []string(o.preload)
	switch {
	case len(preload) == 0:
		preload = python.Packages
	case slices.Equal(preload, []string{"none"}):
		preload = nil
	}
	return pool.Template{Preload: preload, Limits: o.limits(), DNS: o.dns}
}
