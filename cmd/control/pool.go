package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/code-sandbox/code-sandbox/cmd/control/pki"
	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/kube"
	"github.com/code-sandbox/code-sandbox/pool/server"
)

// maxWait is how long a run waits for a sandbox at most: a cold start on a busy
// node, and some in front of it.
const maxWait = time.Minute

// maxTemplates bounds the functions of agents whose copies are kept: each function
// of each process is one.
const maxTemplates = 1024

// startBound is what reaching the API server may take at the start.
const startBound = 30 * time.Second

// minCertificateLife is the least that leaves time to renew a certificate when
// the API server is slow.
const minCertificateLife = 10 * time.Second

// poolService is the parts of the pool's service.
type poolService struct {
	opts     poolOptions
	log      hclog.Logger
	registry *prometheus.Registry
	pods     kubernetes.Interface
	books    kubernetes.Interface
	// authority is nil with certificates that are given.
	authority *pki.Authority
	driver    *kube.Driver
	callers   *kube.Callers
	copies    *kube.Copies // nil where none can be made
	pool      *pool.Pool
	server    *server.Server
	audit     io.Closer
	started   atomic.Bool // a sandbox was ready, once
}

// runPool serves until ctx ends, then stops in reverse: no new runs, those in
// flight finish, sandboxes are destroyed, the watches end.
func runPool(ctx context.Context, o poolOptions) error {
	log, err := newLogger(o.logLevel)
	if err != nil {
		return err
	}
	s := &poolService{opts: o, log: log, registry: prometheus.NewRegistry()}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	tracer, flush, err := newTracer(ctx)
	if err != nil {
		return err
	}
	defer flush()
	serving, err := s.connect(ctx)
	if err == nil {
		err = s.assemble()
	}
	if err != nil {
		return err
	}
	record, err := s.openAudit()
	if err != nil {
		return err
	}
	defer s.audit.Close()
	s.server, err = server.New(server.Options{
		Listen: o.listen, AdminListen: o.adminListen, TLS: serving, Pool: s.pool, Callers: s.callers,
		Template: s.template,
		Told:     s.told(), Limits: o.limits, Ready: s.ready, Drain: o.drain, Audit: record, Tracer: tracer,
		Logger: log.Named("server"), Registry: s.registry,
	})
	if err != nil {
		return err
	}
	return s.serve(ctx)
}

// template is the sandbox for what a caller asks.
func (s *poolService) template(ctx context.Context, caller pool.Caller, body *api.RunBody) (pool.Template, error) {
	switch {
	case body.Copy == nil:
		return s.opts.template(), nil
	case s.copies == nil:
		return pool.Template{}, api.Errorf(api.Unsandboxable, "this pool makes no copies of agents: it was started without --runner-image").Because("no_copies")
	}
	return s.copies.Template(ctx, caller, body.Copy, s.opts.template())
}

// connect makes the clients and what the service proves itself with.
func (s *poolService) connect(ctx context.Context) (*tls.Config, error) {
	config, err := clusterConfig()
	if err != nil {
		return nil, err
	}
	if s.pods, s.books, err = kube.Clients(config); err != nil {
		return nil, err
	}
	if s.opts.tls.Cert != "" {
		files, err := given(s.opts.tls, s.opts.names, s.log.Named("pki"))
		if err != nil {
			return nil, err
		}
		return &tls.Config{GetCertificate: files.GetCertificate, MinVersion: tls.VersionTLS13}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	s.authority, err = pki.New(ctx, pki.Options{Client: s.books, Namespace: s.opts.namespace, Name: s.opts.caSecret,
		Names: s.opts.names, CertificateLife: s.opts.certificateLife, Logger: s.log.Named("pki")})
	if err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: s.authority.GetCertificate, MinVersion: tls.VersionTLS13}, nil
}

// clusterConfig is that of the pod, or else of the environment's KUBECONFIG.
func clusterConfig() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		config, err = clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the cluster: %w", err)
	}
	return config, nil
}

// assemble makes callers, copies, driver and pool.
func (s *poolService) assemble() (err error) {
	s.callers, err = kube.NewCallers(kube.CallersOptions{Client: s.books, Enrolled: s.follow, Gone: func(c pool.Caller) { s.pool.Forget(c) },
		Logger: s.log.Named("callers"), Registerer: s.registry})
	if err != nil {
		return err
	}
	if s.opts.pods.RunnerImage != "" {
		s.copies, err = kube.NewCopies(kube.CopiesOptions{Client: s.books, Callers: s.callers, Labels: s.opts.pods.Labels, Egress: s.opts.egress == "on",
			Logger: s.log.Named("copies")})
		if err != nil {
			return err
		}
	}
	o := s.opts.driver()
	if o.Egress, err = s.proxy(); err != nil {
		return err
	}
	o.Client, o.Bookkeeping, o.Copies, o.Logger, o.Registerer = s.pods, s.books, s.copies, s.log.Named("driver"), s.registry
	if s.driver, err = kube.New(o); err != nil {
		return fmt.Errorf("%w: %w", flags.ErrUsage, err)
	}
	s.pool, err = pool.New(pool.Options{
		Driver: s.driver, Templates: []pool.Template{s.opts.template()}, Target: s.opts.target, Max: s.opts.max, MaxTemplates: maxTemplates,
		OwnedPerCaller: s.opts.copiesPerAgent, OwnedPerTenant: s.opts.copiesPerNamespace,
		MaxWait: maxWait, InFlightPerCaller: s.opts.limits.CallerRuns, DrainTimeout: s.opts.drain, Logger: s.log.Named("pool"), Registerer: s.registry,
	})
	return err
}

// follow watches what copies need of an enrolled namespace until ctx ends.
func (s *poolService) follow(ctx context.Context, namespace string) {
	if s.copies == nil {
		return
	}
	var all sync.WaitGroup
	all.Go(func() { s.driver.Follow(ctx, namespace) })
	all.Go(func() { s.copies.Follow(ctx, namespace) })
	all.Wait()
}

// openAudit opens what the record of runs goes to; none without --audit.
func (s *poolService) openAudit() (*server.Audit, error) {
	s.audit = io.NopCloser(nil)
	switch s.opts.audit {
	case "":
		return nil, nil
	case "-":
		return server.NewAudit(os.Stdout), nil
	}
	f, err := os.OpenFile(s.opts.audit, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the record of --audit: %w", err)
	}
	s.audit = f
	return server.NewAudit(f), nil
}

// ready waits for the first sandbox, so that a rollout with a bad image stops
// there. From then on the pool is there, whatever it has: one that has nothing
// left must be found, for it is the one that can tell callers why.
func (s *poolService) ready() error {
	if stats := s.pool.Stats(); stats.Warm+stats.Leased > 0 {
		s.started.Store(true)
	} else if !s.started.Load() {
		return fmt.Errorf("no sandbox is ready yet: %d are starting", stats.Starting)
	}
	return nil
}

// told is what the pool tells sidecars of itself.
func (s *poolService) told() api.ServiceLimits {
	t := s.opts.template()
	if !s.opts.pods.UserNamespace {
		t.Limits.Processes = 0 // the node's podPidsLimit, which only the node knows
	}
	isolation := "pod"
	if s.opts.pods.RuntimeClass != "" {
		isolation = s.opts.pods.RuntimeClass
	}
	return api.ServiceLimits{
		WaitSeconds: maxWait.Seconds(), Isolation: isolation, MemoryBy: "cgroup", CPUBy: "cgroup", Preload: append([]string{}, t.Preload...),
		Network: map[string]string{kube.DNSRelay: "dns", kube.DNSNone: "none"}[t.DNS], NetworkProof: s.opts.networkProof, Limits: t.Limits,
	}
}

// serve runs all parts, each until those that need it have ended.
func (s *poolService) serve(ctx context.Context) error {
	base, stopAll := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAll()
	serving, stopServing := context.WithCancelCause(ctx)
	defer stopServing(nil)

	var lowest sync.WaitGroup
	if s.authority != nil {
		lowest.Go(func() { s.authority.Run(base) })
	}
	watches := func(name string, run func(context.Context) error) {
		lowest.Go(func() {
			if err := run(base); err != nil {
				stopServing(fmt.Errorf("cannot go on without %s: %w", name, err))
			}
		})
	}
	watches("the sandboxes' driver", s.driver.Run)
	watches("the watch of callers", s.callers.Run)

	poolCtx, stopPool := context.WithCancel(base)
	defer stopPool()
	pooled := make(chan error, 1)
	go func() { pooled <- s.pool.Run(poolCtx) }()

	err := s.server.Run(serving)
	if ctx.Err() == nil && context.Cause(serving) != nil {
		err = errors.Join(context.Cause(serving), err)
	}
	stopPool()
	err = errors.Join(err, <-pooled)
	stopAll()
	lowest.Wait()
	return err
}
