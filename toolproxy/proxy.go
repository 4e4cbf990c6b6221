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
	"time"

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
	Runner Runner
	Policy Policy
	// Door is asked before each request. Nil lets everybody in who reaches the
	// port: for a pod, whose network is its own.
	Door     Door
	Limits   Limits // DefaultLimits when zero
	MaxBoots int    // processes that are remembered; 256
	// MaxBootBytes is what their records may have in memory together; 64 MiB.
	// Beyond either, those that were not used for longest are forgotten.
	MaxBootBytes int
	MaxCalls     int // calls in flight, those that wait included; MaxCalls
	// Ahead is told of copies that calls will be asked for soon, and returns at
	// once. Nil lets the first call of each function wait for its copy.
	Ahead func(*wire.Copy)
	// Longest is what a call may take at this moment, where that is learnt later
	// than at start; at most Policy.MaxTimeout. Nil is Policy.MaxTimeout.
	Longest  func() time.Duration
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
	held  int // bytes of boots
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
	if o.MaxBootBytes == 0 {
		o.MaxBootBytes = 64 << 20
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = MaxCalls
	}
	p := &Proxy{opts: o, log: o.Logger, usage: usage{}}
	var err error
	if p.boots, err = simplelru.NewLRU(o.MaxBoots, func(_ string, b *boot) { p.held -= b.size }); err != nil {
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
	Serve        serveFunc
}

// envelope is what a call's body may have beside its arguments.
const envelope = 256 << 10

// Paths is all that a Proxy serves.
func (p *Proxy) Paths() []Path {
	return []Path{
		{"/v1/tools/hello", http.MethodPost, maxBoot, p.behind(p.hello)},
		{"/v1/tools/call", http.MethodPost, p.opts.Limits.ArgsBytes + envelope, p.behind(p.call)},
		{"/v1/tools", http.MethodGet, 0, p.behind(p.list)},
	}
}

// hello takes in a boot record. The same boot id replaces the earlier record.
func (p *Proxy) hello(_ context.Context, rc *fasthttp.RequestCtx, body []byte) (func(*bufio.Writer), *api.Error) {
	b, err := readBoot(body)
	if err != nil {
		code := api.BadRequest
		if errors.Is(err, errTooLarge) {
			code = api.TooLarge
		}
		return nil, api.Errorf(code, "cannot take the boot record: %w", err)
	}
	p.ahead(b)
	p.mu.Lock()
	earlier, again := p.boots.Peek(b.record.ID)
	p.remember(b)
	p.audited(earlier, b)
	p.mu.Unlock()
	if !again {
		p.metrics.boots.Inc()
		p.metrics.heard.Set(1)
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
	policy := p.policy()
	return nil, answer(rc, policy.welcome(p.opts.Limits))
}

// remember keeps a record in place of an earlier one of its process, and forgets
// others until all fit. The caller holds the lock.
func (p *Proxy) remember(b *boot) {
	p.boots.Remove(b.record.ID) // an Add in its place would not tell of the bytes that go
	p.boots.Add(b.record.ID, b)
	for p.held += b.size; p.held > p.opts.MaxBootBytes && p.boots.Len() > 1; {
		p.boots.RemoveOldest()
	}
}

// Heard is nil once a process has said hello. Until then the error says what
// may be the cause, for whoever requires one.
func (p *Proxy) Heard() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boots.Len() > 0 {
		return nil
	}
	return errors.New("no process has loaded the tool-call hook and registered a tool: the agent has not started yet, or Python was started " +
		"with -I, -E or -S, or without the PYTHONPATH that it was given, or its tools belong to no framework that the hook knows")
}

// policy is the one in force at this moment.
func (p *Proxy) policy() Policy {
	now := p.opts.Policy
	if p.opts.Longest == nil {
		return now
	}
	if longest := p.opts.Longest(); longest > 0 && longest < now.MaxTimeout {
		now.MaxTimeout, now.Timeout = longest, min(now.Timeout, longest)
	}
	return now
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
