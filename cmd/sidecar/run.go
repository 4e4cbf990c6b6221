package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/valyala/fasthttp"

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
	server, err := sidecar.New(sidecar.Options{
		Listen: o.listen, AdminListen: o.adminListen, Runner: runner{pool, o.timeout.Seconds()}, Limits: l, Drain: o.drain, Logger: log, Registry: registry,
		InForce: func(l sidecar.Limits) sidecar.Limits { return learnt(l, pool.Told()) },
		Ready:   pool.Ready, Version: version.Of(), Mounts: noTools(),
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
	known := r.Told() != nil
	res, err := r.Client.Run(ctx, req, sink)
	e, typed := errors.AsType[*api.Error](err)
	if known || !typed || e.Code != api.BadRequest || e.Executed != api.No || req.TimeoutSeconds != r.timeout || r.Learn(ctx) != nil {
		return res, err
	}
	shorter := *req
	if shorter.TimeoutSeconds = r.Told().Limits.MaxRun.Seconds(); shorter.TimeoutSeconds >= req.TimeoutSeconds {
		return res, err
	}
	return r.Client.Run(ctx, &shorter, sink)
}

// learnt are the limits with what the pool said of itself, if it did.
func learnt(l sidecar.Limits, told *api.ServiceLimits) sidecar.Limits {
	if told == nil {
		return l
	}
	t := told.Limits
	l.Request.MaxTimeout = sidecar.Seconds(t.MaxRun.Seconds())
	l.Request.DefaultTimeout = min(l.Request.DefaultTimeout, l.Request.MaxTimeout)
	l.Sandbox = sidecar.SandboxLimits{
		Isolation: told.Isolation, MemoryBy: told.MemoryBy, PythonVersion: told.PythonVersion, Preload: told.Preload, Network: told.Network,
		MemoryBytes: t.MemoryBytes, DiskBytes: t.DiskBytes, DiskFiles: t.DiskFiles, Processes: t.Processes, OpenFiles: t.OpenFiles,
		OutputBytes: t.OutputBytes, FilesBytes: t.FilesBytes,
	}
	return l
}

// noTools refuses the hook in words: a tool must never run in the agent because
// a sidecar said nothing.
func noTools() []sidecar.Mounted {
	refuse := func(context.Context, *fasthttp.RequestCtx, []byte) (func(*bufio.Writer), *api.Error) {
		return nil, api.Errorf(api.Unsandboxable, "cannot run a tool in a sandbox: tool calls on Kubernetes are not there yet").Because("not_on_kubernetes")
	}
	var all []sidecar.Mounted
	for _, path := range []string{"/v1/tools/hello", "/v1/tools/call"} {
		all = append(all, sidecar.Mounted{Path: path, Method: http.MethodPost, BodyBytes: 16 << 20, Serve: refuse})
	}
	return all
}
