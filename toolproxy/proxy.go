// Package toolproxy runs the tool calls of agents in sandboxes: it hears what a
// process is (hello), and hands each call to a copy of it.
package toolproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Runner runs one call in a copy of its own. An error is an *api.Error. It
// returns soon after ctx ends.
type Runner interface {
	Call(ctx context.Context, c *wire.Copy, req *wire.Request, sink wire.Sink) (*wire.Result, error)
}

// Options is all that a Proxy needs. A number that is zero has the default
// named with it.
type Options struct {
	Runner   Runner
	Policy   Policy
	Limits   Limits // DefaultLimits when zero
	MaxBoots int    // processes that are remembered; 256
	MaxCalls int    // calls in flight, those that wait included; MaxCalls
	Logger   hclog.Logger
	Registry prometheus.Registerer
}

// Proxy serves the tool calls of the agents on one machine or in one pod.
type Proxy struct {
	opts     Options
	log      hclog.Logger
	metrics  *metrics
	inFlight atomic.Int64

	mu    sync.Mutex
	boots *simplelru.LRU[string, *boot]
	usage usage
}

// New makes a Proxy. An error names the setting that is wrong.
func New(o Options) (*Proxy, error) {
	if o.Runner == nil || o.Logger == nil || o.Registry == nil {
		return nil, errors.New("cannot make a tool proxy without a Runner, a Logger and a Registry")
	}
	if err := o.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("cannot make a tool proxy: %w", err)
	}
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.MaxBoots == 0 {
		o.MaxBoots = 256
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = MaxCalls
	}
	p := &Proxy{opts: o, log: o.Logger, usage: usage{}}
	var err error
	if p.boots, err = simplelru.NewLRU[string, *boot](o.MaxBoots, nil); err != nil {
		return nil, fmt.Errorf("cannot make a tool proxy: %w", err)
	}
	if p.metrics, err = newMetrics(o.Registry); err != nil {
		return nil, err
	}
	return p, nil
}

// Path is one path that a Proxy serves, in the terms of the server that it is
// mounted in: Serve answers, fails, or goes on writing.
type Path struct {
	Path, Method string
	BodyBytes    int
	Serve        func(ctx context.Context, rc *fasthttp.RequestCtx, body []byte) (func(*bufio.Writer), *api.Error)
}

// envelope is what a call's body may have beside its arguments.
const envelope = 256 << 10

// Paths is all that a Proxy serves.
func (p *Proxy) Paths() []Path {
	return []Path{
		{"/v1/tools/hello", http.MethodPost, maxBoot, p.hello},
		{"/v1/tools/call", http.MethodPost, p.opts.Limits.ArgsBytes + envelope, p.call},
		{"/v1/tools", http.MethodGet, 0, p.list},
	}
}

// hello takes in a boot record. The same boot id replaces the earlier record.
func (p *Proxy) hello(_ context.Context, rc *fasthttp.RequestCtx, body []byte) (func(*bufio.Writer), *api.Error) {
	b, err := readBoot(body)
	if err != nil {
		return nil, api.Errorf(api.BadRequest, "cannot take the boot record: %w", err)
	}
	p.mu.Lock()
	earlier, again := p.boots.Peek(b.record.ID)
	p.boots.Add(b.record.ID, b)
	p.audited(earlier, b)
	p.mu.Unlock()
	if !again {
		p.metrics.boots.Inc()
	}
	for _, f := range b.record.Frameworks {
		if f.State == "unknown_shape" {
			p.log.Warn("a framework has an unknown shape", "framework", clip(f.Name), "version", clip(f.Version), "detail", clip(f.Detail))
		}
	}
	if b.record.Failure != "" {
		p.log.Warn("a hook failed in its agent", "failure", clip(b.record.Failure))
	}
	p.log.Debug("heard of a process", "boot", b.record.ID, "tools", len(b.record.Tools))
	return nil, answer(rc, p.opts.Policy.welcome(p.opts.Limits))
}

func (p *Proxy) boot(id string) *boot {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, _ := p.boots.Get(id)
	return b
}

// list answers what is known of tools.
func (p *Proxy) list(_ context.Context, rc *fasthttp.RequestCtx, _ []byte) (func(*bufio.Writer), *api.Error) {
	return nil, answer(rc, map[string]any{"mode": p.opts.Policy.Mode, "tools": p.Tools(), "frameworks": p.Frameworks(), "boots": p.Boots()})
}
