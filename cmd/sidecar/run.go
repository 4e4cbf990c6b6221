package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/cmd/version"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/api/client"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/sidecar"
)

// run serves until ctx ends. The pool need not be there yet.
func run(ctx context.Context, o options) error {
	server, pool, err := build(o)
	if err != nil {
		return err
	}
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { pool.Keep(keep) })
	defer keeping.Wait()
	defer stop() // after the last run
	return server.Run(ctx)
}

func build(o options) (*sidecar.Server, *client.Client, error) {
	log := hclog.New(&hclog.LoggerOptions{Name: "sidecar", Level: hclog.LevelFromString(o.logLevel), Output: os.Stderr, JSONFormat: true})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	pool, err := client.New(client.Options{
		Address: o.pool, ServerName: o.poolName, CA: []byte(o.poolCA), CAFile: o.poolCAFile, TokenFile: o.tokenFile, Self: o.podUID,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", flags.ErrUsage, err)
	}
	l := sidecar.DefaultLimits()
	l.Request.DefaultTimeout = sidecar.Seconds(o.timeout.Seconds())
	// The pool's longest is learnt; until then the pool itself refuses more.
	l.Request.MaxTimeout = max(l.Request.MaxTimeout, l.Request.DefaultTimeout)
	l.Server.Requests, l.Server.Wait = o.requests, sidecar.Seconds(o.wait.Seconds())
	l.Server.BodiesBytes = 32 << 20 // it shares its memory with nobody, but has little
	proxy, err := newTools(o, calls{pool, o.wait}, log.Named("tools"), registry)
	if err != nil {
		return nil, nil, err
	}
	l.Tools = toolLimits(o)
	server, err := sidecar.New(sidecar.Options{
		Listen: o.listen, AdminListen: o.adminListen, Runner: runner{pool, o.timeout.Seconds()}, Limits: l, Drain: o.drain, Hurry: o.hurry, Logger: log, Registry: registry,
		InForce: func(l sidecar.Limits) sidecar.Limits { return learnt(l, pool.Told()) },
		Ready:   o.ready(pool, proxy), Version: version.Of(), Mounts: mounts(proxy),
	})
	return server, pool, err
}

// runner is the pool, for runs that come before the pool's limits are known.
type runner struct {
	*client.Client
	timeout float64 // of a run that names none
}

// Run shortens the default timeout to the pool's longest when the pool refuses
// it: the caller has not asked for it.
func (r runner) Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	run := func(req *wire.Request) (*wire.Result, error) { return r.Client.Run(ctx, req, sink) }
	if req.TimeoutSeconds != r.timeout {
		return run(req)
	}
	return shortened(ctx, r.Client, req, run)
}

// shortened runs what may take as long as the pool allows. When that is not
// known yet and the pool refuses the timeout, so that nothing ran, it is asked
// for its longest.
func shortened(ctx context.Context, pool *client.Client, req *wire.Request, run func(*wire.Request) (*wire.Result, error)) (*wire.Result, error) {
	known := pool.Told() != nil
	res, err := run(req)
	e, typed := errors.AsType[*api.Error](err)
	if known || !typed || e.Code != api.BadRequest || e.Executed != api.No || pool.Learn(ctx) != nil {
		return res, err
	}
	shorter := *req
	if shorter.TimeoutSeconds = pool.Told().Limits.MaxRun.Seconds(); shorter.TimeoutSeconds >= req.TimeoutSeconds {
		return res, err
	}
	return run(&shorter)
}

// learnt are the limits with what the pool said of itself, if it did.
func learnt(l sidecar.Limits, told *api.ServiceLimits) sidecar.Limits {
	if told == nil {
		return l
	}
	t := told.Limits
	l.Request.MaxTimeout = sidecar.Seconds(t.MaxRun.Seconds())
	l.Request.DefaultTimeout = min(l.Request.DefaultTimeout, l.Request.MaxTimeout)
	if l.Tools != nil {
		tools := *l.Tools
		tools.MaxTimeout = min(tools.MaxTimeout, l.Request.MaxTimeout)
		l.Tools = &tools
	}
	l.Sandbox = sidecar.SandboxLimits{
		Isolation: told.Isolation, MemoryBy: told.MemoryBy, CPUBy: told.CPUBy, PythonVersion: told.PythonVersion, Preload: told.Preload,
		Network: told.Network, NetworkProof: told.NetworkProof,
		MemoryBytes: t.MemoryBytes, DiskBytes: t.DiskBytes, DiskFiles: t.DiskFiles, Processes: t.Processes, OpenFiles: t.OpenFiles,
		OutputBytes: t.OutputBytes, FilesBytes: t.FilesBytes,
	}
	return l
}
