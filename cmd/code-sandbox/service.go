package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/code-sandbox/code-sandbox/cmd/version"
	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/local"
	"github.com/code-sandbox/code-sandbox/pool/runner"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/sidecar"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

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
	for _, remark := range o.remarks() {
		fmt.Fprintln(os.Stderr, "code-sandbox: remark:", remark)
	}
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

// startTimeout bounds one start, which for a copy has the import of the agent's
// program in it. Who waits for a sandbox waits as long: a caller that left
// before would be told of a failure, and the copy come a moment later.
const startTimeout = 2 * time.Minute

// makePool keeps sandboxes for run_python warm, but not beside an agent, whose
// tools are copies.
func (s *service) makePool(registry *prometheus.Registry) (err error) {
	templates := []pool.Template{s.template}
	if len(s.opts.agent) > 0 {
		templates = nil
	}
	s.pool, err = pool.New(pool.Options{
		Driver: s.driver, Templates: templates, Target: s.opts.target, Max: s.opts.max, MaxTemplates: maxTemplates,
		StartTimeout: startTimeout, MaxWait: startTimeout,
		// More at once only take the processor from each other, and from the runs
		// before them: then a later caller's answer is ready first.
		MaxStarting:    max(4, 2*runtime.NumCPU()),
		QueuePerCaller: 256, DrainTimeout: s.opts.drain, Logger: s.log.Named("pool"), Registerer: registry,
	})
	return err
}

// hostsHint ends the answer to who asks for another host.
const hostsHint = ", or start the service with --hosts and the names that it is to be asked for by"

func (s *service) makeSidecar(registry *prometheus.Registry) (err error) {
	o := s.opts
	s.proxy, err = toolproxy.New(toolproxy.Options{
		Runner: copies{s}, Policy: o.tools.Policy(o.maxTimeout), Door: door(o.token), Logger: s.log.Named("tools"), Registry: registry,
	})
	if err != nil {
		return err
	}
	s.sidecar, err = sidecar.New(sidecar.Options{
		Listen: o.listen, AdminListen: o.adminListen, Hosts: o.hosts, HostsHint: hostsHint, Runner: s, Limits: s.limits(), Drain: o.drain, Hurry: o.hurry,
		Logger: s.log.Named("sidecar"), Registry: registry, Ready: s.ready, Version: version.Of(), Mounts: mounts(s.proxy),
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
		Isolation: s.driver.Isolation(), MemoryBy: s.driver.MemoryBy(), CPUBy: s.driver.CPUBy(), PythonVersion: s.python.Version, Preload: append([]string{}, s.template.Preload...),
		Network: map[string]string{"relay": "dns", "none": "none"}[s.opts.dns], MemoryBytes: t.MemoryBytes, DiskBytes: t.DiskBytes,
		DiskFiles: t.DiskFiles, Processes: t.Processes, OpenFiles: t.OpenFiles, OutputBytes: t.OutputBytes, FilesBytes: t.FilesBytes,
	}
	l.Sandbox.AnswerFiles, l.Sandbox.DNSLookups, l.Sandbox.Warm, l.Sandbox.Sandboxes = runner.MaxFiles, local.DNSLookups, s.opts.target, s.opts.max
	if s.opts.dns == "none" {
		l.Sandbox.DNSLookups = 0
	}
	crossing := toolproxy.DefaultLimits()
	l.Tools = &sidecar.ToolLimits{
		Mode: s.opts.tools.Mode, Calls: toolproxy.MaxCalls, ArgsBytes: crossing.ArgsBytes, ResultBytes: crossing.ResultBytes,
		Depth: crossing.Depth, Nodes: crossing.Nodes, MaxTimeout: l.Request.MaxTimeout,
	}
	if s.opts.isolation == local.BareIsolation { // what does not hold is not told
		l.Sandbox.DNSLookups = 0
		l.Sandbox.Network, l.Sandbox.DiskBytes, l.Sandbox.DiskFiles, l.Sandbox.Processes = "host", 0, 0, 0
	}
	return l
}

// serve runs pool and sidecar, and beside in a goroutine, until ctx ends or one
// of them fails. The sidecar stops first, then the pool under it.
func (s *service) serve(ctx context.Context, beside func(context.Context)) error {
	poolCtx, stopPool := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPool()
	poolDone := make(chan error, 1)
	go func() { poolDone <- s.pool.Run(poolCtx) }()

	var besides sync.WaitGroup
	defer besides.Wait()
	besideCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	besides.Go(func() { beside(besideCtx) })

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
	fmt.Printf(`Code Sandbox is ready on http://%[1]s after %.1[2]f s: Python %[3]s, isolation %[4]s, memory held by %[5]s, processors shared by %[6]s.
Try it:

  curl -s http://%[1]s/run_python -H 'Content-Type: text/x-python' --data-binary 'print(6 * 7)'

`, s.address(), time.Since(began).Seconds(), s.python.Version, s.driver.Isolation(), s.driver.MemoryBy(), s.driver.CPUBy())
}

// address is where we can be reached from this machine.
func (s *service) address() string {
	host, port, err := net.SplitHostPort(s.sidecar.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return s.sidecar.Addr().String()
}
