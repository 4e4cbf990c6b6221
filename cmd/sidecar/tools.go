package main

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/pool/api/client"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/sidecar"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

// policy is what the flags say of tool calls. The pool's longest is learnt, and
// stands over it.
func (o *options) policy() toolproxy.Policy {
	return o.tools.Policy(max(time.Duration(toolproxy.DefaultLimits().MaxSeconds)*time.Second, o.tools.Asked()))
}

// newTools serves the tool calls of the pod.
func newTools(o options, pool calls, log hclog.Logger, registry prometheus.Registerer) (*toolproxy.Proxy, error) {
	return toolproxy.New(toolproxy.Options{
		Runner: pool, Ahead: pool.Ahead, Policy: o.policy(), MaxCalls: o.requests, Logger: log, Registry: registry,
		Longest: func() time.Duration {
			if told := pool.Told(); told != nil {
				return told.Limits.MaxRun
			}
			return 0
		},
	})
}

// callWait is what a call may wait for the pool and a copy, on top of its
// timeout. The hook waits 30 s: an answer of ours says whether the tool ran.
const callWait = 27 * time.Second

// calls is the pool, for tool calls.
type calls struct {
	*client.Client
	wait time.Duration
}

// Call shortens its timeout where the pool's longest is not known yet.
func (c calls) Call(ctx context.Context, program *wire.Copy, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, req.Timeout()+min(c.wait, callWait))
	defer cancel()
	return shortened(ctx, c.Client, req, func(req *wire.Request) (*wire.Result, error) {
		return c.Client.Call(ctx, program, req, sink)
	})
}

// toolLimits is what GET /limits tells of tool calls.
func toolLimits(o options) *sidecar.ToolLimits {
	crossing, policy := toolproxy.DefaultLimits(), o.policy()
	return &sidecar.ToolLimits{
		Mode: o.tools.Mode, Calls: o.requests, ArgsBytes: crossing.ArgsBytes, ResultBytes: crossing.ResultBytes, Depth: crossing.Depth,
		Nodes: crossing.Nodes, MaxTimeout: sidecar.Seconds(policy.MaxTimeout.Seconds()),
	}
}

// ready says what the sidecar waits for: the pool, and the hook where the agent
// must have it.
func (o *options) ready(pool *client.Client, proxy *toolproxy.Proxy) func() error {
	must := o.requireHook && o.tools.Mode != string(toolproxy.Off)
	return func() error {
		if err := pool.Ready(); err != nil || !must {
			return err
		}
		return proxy.Heard()
	}
}

// mounts are the paths of a tool proxy, as the sidecar takes them.
func mounts(p *toolproxy.Proxy) []sidecar.Mounted {
	var all []sidecar.Mounted
	for _, path := range p.Paths() {
		all = append(all, sidecar.Mounted{Path: path.Path, Method: path.Method, BodyBytes: path.BodyBytes, Serve: path.Serve})
	}
	return all
}
