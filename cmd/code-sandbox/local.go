package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/local"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/sidecar"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

// readyBound is how long the first sandbox may take: imports, mostly.
const readyBound = 2 * time.Minute

// maxTemplates is how many kinds of sandboxes are kept warm: run_python's, and
// one for each tool of each agent process.
const maxTemplates = 128

// localOptions are the flags of "code-sandbox local".
type localOptions struct {
	listen, adminListen string
	hosts               list
	target, max         int
	python              string
	preload             list
	freshInterpreter    bool
	isolation           string
	dns                 string
	memory, disk        size
	processes           int
	output, files       size
	timeout, maxTimeout time.Duration
	drain               time.Duration
	logLevel            string
	tools               toolOptions
	summary             bool
	agent               []string // what to run beside the service
}

func parseLocal(args []string) (localOptions, error) {
	limits := wire.DefaultLimits()
	o := localOptions{memory: size(limits.MemoryBytes), disk: size(limits.DiskBytes), output: size(limits.OutputBytes), files: size(limits.FilesBytes)}
	fs := flag.NewFlagSet("code-sandbox local", flag.ContinueOnError)
	fs.StringVar(&o.listen, "listen", "", "serve the API on this `address` (default 127.0.0.1:8900; with an agent a free port)")
	fs.StringVar(&o.adminListen, "admin-listen", "", "serve metrics, health and readiness on this `address` (default 127.0.0.1:8902; with an agent a free port)")
	fs.Var(&o.hosts, "hosts", "answer to these host `names` too, comma-separated; needed when --listen is not a loopback address")
	fs.IntVar(&o.target, "target", 3, "keep this many sandboxes warm at least; demand raises it, up to --max")
	fs.IntVar(&o.max, "max", max(16, 4*runtime.NumCPU()), "never have more than this many sandboxes, warm and running; others wait")
	fs.StringVar(&o.python, "python", "python3", "run programs with this CPython, 3.8 or newer: a command or a `path`; its environment's packages come along")
	fs.Var(&o.preload, "preload", "import these `modules` ahead of time, comma-separated (default: numpy and pandas where installed; \"none\" for none)")
	fs.BoolVar(&o.freshInterpreter, "fresh-interpreter", false, "boot an interpreter per sandbox instead of forking one: own hash seed and address layout, at about half the throughput")
	fs.StringVar(&o.isolation, "isolation", "namespaces", "what stands around a program: namespaces, or none, which is for programs you trust as you trust their author")
	fs.StringVar(&o.dns, "dns", "relay", "what a program can look up: relay (this machine's name servers) or none")
	fs.Var(&o.memory, "memory", "memory of one sandbox, its files included")
	fs.Var(&o.disk, "disk", "files of one sandbox: working directory, /tmp and /dev/shm together; they count as memory")
	fs.IntVar(&o.processes, "processes", limits.Processes, "processes and threads of one sandbox")
	fs.Var(&o.output, "output", "kept of stdout, and again of stderr; the rest is counted and left out")
	fs.Var(&o.files, "files", "content of all files of one answer")
	fs.DurationVar(&o.timeout, "timeout", 30*time.Second, "a run's timeout when it names none")
	fs.DurationVar(&o.maxTimeout, "max-timeout", limits.MaxRun, "the longest timeout a run may ask for")
	fs.DurationVar(&o.drain, "drain", 30*time.Second, "what runs in flight get to end when the service stops")
	fs.StringVar(&o.logLevel, "log-level", "warn", "log at this level: debug, info, warn or error")
	fs.BoolVar(&o.summary, "summary", false, "with an agent: print at its end which tools ran where")
	o.tools.flags(fs)
	args, o.agent = splitAgent(args)
	fs.Usage = func() {
		_, _ = fmt.Fprint(fs.Output(), "code-sandbox local [flags] [-- AGENT ...]\n\n")
		fs.PrintDefaults()
	}
	if err := parse(fs, args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%w: %q is not a flag of code-sandbox local; an agent's command goes after --", errUsage, fs.Arg(0))
	}
	o.places()
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
	case o.dns != "relay" && o.dns != "none":
		return fmt.Errorf("%w: --dns is %q; it can be relay or none", errUsage, o.dns)
	case o.isolation != "namespaces" && o.isolation != local.BareIsolation:
		return fmt.Errorf("%w: --isolation is %q; it can be namespaces or none", errUsage, o.isolation)
	case o.target < 1 || o.target > o.max:
		return fmt.Errorf("%w: --target is %d; it can be 1 to --max, which is %d", errUsage, o.target, o.max)
	case o.timeout <= 0 || o.timeout > o.maxTimeout:
		return fmt.Errorf("%w: --timeout is %s; it can be up to --max-timeout, which is %s", errUsage, o.timeout, o.maxTimeout)
	case o.drain < 0:
		return fmt.Errorf("%w: --drain is %s; it cannot be negative", errUsage, o.drain)
	case hclog.LevelFromString(o.logLevel) == hclog.NoLevel:
		return fmt.Errorf("%w: --log-level is %q; it can be debug, info, warn or error", errUsage, o.logLevel)
	}
	policy := o.tools.policy(o.maxTimeout)
	if err := policy.Validate(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return o.validateLimits()
}

// validateLimits tries the limits one by one, to name the flag of a wrong one.
func (o *localOptions) validateLimits() error {
	mine := o.limits()
	for _, limit := range []struct {
		flag string
		set  func(*wire.Limits)
	}{
		{"memory", func(l *wire.Limits) { l.MemoryBytes = mine.MemoryBytes }},
		{"disk", func(l *wire.Limits) { l.DiskBytes = mine.DiskBytes }},
		{"processes", func(l *wire.Limits) { l.Processes = mine.Processes }},
		{"output", func(l *wire.Limits) { l.OutputBytes = mine.OutputBytes }},
		{"files", func(l *wire.Limits) { l.FilesBytes = mine.FilesBytes }},
		{"max-timeout", func(l *wire.Limits) { l.MaxRun = mine.MaxRun }},
	} {
		l := wire.DefaultLimits()
		limit.set(&l)
		if err := l.Validate(); err != nil {
			return fmt.Errorf("%w: --%s: %w", errUsage, limit.flag, err)
		}
	}
	return nil
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
		for _, module := range []string{"numpy", "pandas"} {
			if slices.Contains(python.Packages, module) {
				preload = append(preload, module)
			}
		}
	case slices.Equal(preload, []string{"none"}):
		preload = nil
	}
	return pool.Template{Preload: preload, Limits: o.limits(), DNS: o.dns}
}

// service is the parts of local mode.
type service struct {
	opts     localOptions
	log      hclog.Logger
	python   local.Python
	template pool.Template
	driver   driver
	pool     *pool.Pool
	sidecar  *sidecar.Server
	proxy    *toolproxy.Proxy
	hook     string // the folder of the tool-call hook
}

// runLocal serves until ctx ends, then stops in reverse.
func runLocal(ctx context.Context, o localOptions) error {
	began := time.Now()
	s, err := newService(ctx, o)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer s.close()
	if err := s.tryOne(ctx); err != nil {
		return unlessStopped(ctx, err)
	}
	return s.serve(ctx, func(ctx context.Context) { s.announce(ctx, began) })
}

// close gives back what newService took.
func (s *service) close() {
	if s.driver != nil {
		if err := s.driver.Close(); err != nil {
			s.log.Error("something is left of a sandbox", "error", err)
		}
	}
	if s.hook != "" {
		if err := removeRuntime(s.hook); err != nil {
			s.log.Error("cannot remove the hook's files", "error", err)
		}
	}
}

func newLogger(level string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "code-sandbox", Level: hclog.LevelFromString(level), Output: os.Stderr})
}

// unlessStopped is the error of a start, or nil where the start was given up.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func newService(ctx context.Context, o localOptions) (*service, error) {
	s := &service{opts: o, log: newLogger(o.logLevel)}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	err := s.makeDriver(ctx, registry)
	if err == nil {
		err = s.makePool(registry)
	}
	if err == nil {
		err = s.makeSidecar(registry)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *service) makeDriver(ctx context.Context, registry *prometheus.Registry) (err error) {
	o := s.opts
	if s.python, err = local.LookPython(ctx, o.python); err != nil {
		return err
	}
	s.template = o.template(s.python)
	if s.hook, err = layRuntime(); err != nil {
		return err
	}
	s.driver, err = newDriver(o, s.python, s.hook, s.log.Named("driver"), registry)
	return err
}

// makePool keeps sandboxes for run_python warm, but not beside an agent, whose
// tools are copies.
func (s *service) makePool(registry *prometheus.Registry) (err error) {
	templates := []pool.Template{s.template}
	if len(s.opts.agent) > 0 {
		templates = nil
	}
	s.pool, err = pool.New(pool.Options{
		Driver: s.driver, Templates: templates, Target: s.opts.target, Max: s.opts.max, MaxTemplates: maxTemplates, MaxWait: time.Minute,
		QueuePerCaller: 256, DrainTimeout: s.opts.drain, Logger: s.log.Named("pool"), Registerer: registry,
	})
	return err
}

func (s *service) makeSidecar(registry *prometheus.Registry) (err error) {
	o := s.opts
	s.proxy, err = toolproxy.New(toolproxy.Options{
		Runner: copies{s}, Policy: o.tools.policy(o.maxTimeout), Logger: s.log.Named("tools"), Registry: registry,
	})
	if err != nil {
		return err
	}
	s.sidecar, err = sidecar.New(sidecar.Options{
		Listen: o.listen, AdminListen: o.adminListen, Hosts: o.hosts, Runner: s, Limits: s.limits(), Drain: o.drain,
		Logger: s.log.Named("sidecar"), Registry: registry, Ready: s.ready, Version: version(), Mounts: mounts(s.proxy),
	})
	return err
}

// Run implements sidecar.Runner: on one machine, everybody is one caller.
func (s *service) Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	return s.pool.Exec(ctx, pool.Caller{Tenant: "local", Name: "local"}, s.template, req, sink)
}

// copies implements toolproxy.Runner.
type copies struct{ *service }

func (c copies) Call(ctx context.Context, cp *wire.Copy, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	t := pool.Template{Copy: cp, Limits: c.opts.limits(), DNS: c.opts.dns, Warm: 1}
	return c.pool.Exec(ctx, pool.Caller{Tenant: "local", Name: "tools"}, t, req, sink)
}

// mounts are the paths of a tool proxy, as the sidecar takes them.
func mounts(p *toolproxy.Proxy) []sidecar.Mounted {
	var all []sidecar.Mounted
	for _, path := range p.Paths() {
		all = append(all, sidecar.Mounted{Path: path.Path, Method: path.Method, BodyBytes: path.BodyBytes, Serve: path.Serve})
	}
	return all
}

func (s *service) ready() error {
	if len(s.opts.agent) > 0 {
		return nil // nothing is kept warm ahead of the agent's first call
	}
	if stats := s.pool.Stats(); stats.Warm+stats.Leased == 0 {
		return fmt.Errorf("no sandbox is ready yet: %d are starting", stats.Starting)
	}
	return nil
}

// limits is what GET /limits tells.
func (s *service) limits() sidecar.Limits {
	l := sidecar.DefaultLimits()
	l.Request.DefaultTimeout = sidecar.Seconds(s.opts.timeout.Seconds())
	l.Request.MaxTimeout = sidecar.Seconds(s.opts.maxTimeout.Seconds())
	t := s.template.Limits
	l.Sandbox = sidecar.SandboxLimits{
		Isolation: s.driver.Isolation(), MemoryBy: s.driver.MemoryBy(), PythonVersion: s.python.Version, Preload: append([]string{}, s.template.Preload...),
		Network: map[string]string{"relay": "dns", "none": "none"}[s.opts.dns], MemoryBytes: t.MemoryBytes, DiskBytes: t.DiskBytes,
		DiskFiles: t.DiskFiles, Processes: t.Processes, OpenFiles: t.OpenFiles, OutputBytes: t.OutputBytes, FilesBytes: t.FilesBytes,
	}
	if s.opts.isolation == local.BareIsolation { // what does not hold is not told
		l.Sandbox.Network, l.Sandbox.DiskBytes, l.Sandbox.DiskFiles, l.Sandbox.Processes = "host", 0, 0, 0
	}
	return l
}

// serve runs pool and sidecar, and beside in a goroutine, until ctx ends or one of them fails; the sidecar
// stops first, then the pool under it.
func (s *service) serve(ctx context.Context, beside func(context.Context)) error {
	poolCtx, stopPool := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPool()
	poolDone := make(chan error, 1)
	go func() { poolDone <- s.pool.Run(poolCtx) }()

	besideCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	go beside(besideCtx)

	err := s.sidecar.Run(ctx)
	stopPool()
	if poolErr := <-poolDone; err == nil {
		err = poolErr
	}
	return err
}

// announce says that the service is ready, when it is, and how to call it.
func (s *service) announce(ctx context.Context, began time.Time) {
	for s.ready() != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	fmt.Printf(`Code Sandbox is ready on http://%[1]s after %.1[2]f s: Python %[3]s, isolation %[4]s, memory held by %[5]s.
Try it:

  curl -s http://%[1]s/run_python -H 'Content-Type: text/x-python' -d 'print(6 * 7)'

`, s.address(), time.Since(began).Seconds(), s.python.Version, s.driver.Isolation(), s.driver.MemoryBy())
}

// address is where we can be reached from this machine.
func (s *service) address() string {
	host, port, err := net.SplitHostPort(s.sidecar.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return s.sidecar.Addr().String()
}
