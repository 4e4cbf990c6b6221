package toolproxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const maxTarget = 64 << 10 // bytes

// request is the body of a call.
type request struct {
	ID        string                     `json:"id"`
	BootID    string                     `json:"boot_id"`
	Tool      string                     `json:"tool"`
	Framework string                     `json:"framework"`
	Target    json.RawMessage            `json:"target"`
	Args      []json.RawMessage          `json:"args"`
	Kwargs    map[string]json.RawMessage `json:"kwargs"`
	Stream    bool                       `json:"stream"`
	Timeout   float64                    `json:"timeout_seconds"`
}

// frame is what a copy is sent.
type frame struct {
	Op     string                     `json:"op"`
	Target json.RawMessage            `json:"target"`
	Args   []json.RawMessage          `json:"args"`
	Kwargs map[string]json.RawMessage `json:"kwargs"`
	Stream bool                       `json:"stream"`
	Limits Limits                     `json:"limits"`
}

// call runs one tool call.
func (p *Proxy) call(ctx context.Context, rc *fasthttp.RequestCtx, body []byte) (func(*bufio.Writer), *api.Error) {
	if p.inFlight.Add(1) > int64(p.opts.MaxCalls) {
		p.inFlight.Add(-1)
		return nil, api.Errorf(api.Busy, "%d tool calls are in flight, which is the limit", p.opts.MaxCalls).After(time.Second)
	}
	c, err := p.prepare(body)
	if err != nil {
		p.inFlight.Add(-1)
		return nil, err
	}
	if c.request.Stream {
		return p.stream(ctx, rc, c)
	}
	defer p.inFlight.Add(-1)
	res, err := p.run(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	return nil, answerRaw(rc, res)
}

// prepared is a call that can be run.
type prepared struct {
	request request
	copy    *wire.Copy
	run     *wire.Request
}

// prepare checks a call.
func (p *Proxy) prepare(body []byte) (*prepared, *api.Error) {
	c := &prepared{}
	r := &c.request
	if err := decode(body, r); err != nil {
		return nil, api.Errorf(api.BadRequest, "cannot read the call: %w", err)
	}
	target := bytes.TrimSpace(r.Target)
	if len(target) == 0 || target[0] != '{' || len(target) > maxTarget {
		return nil, api.Errorf(api.BadRequest, "cannot read the call: target must be an object of at most %d bytes", maxTarget)
	}
	if p.opts.Policy.Mode == Off {
		return nil, api.Errorf(api.Forbidden, "tool calls are switched off here")
	}
	b := p.boot(r.BootID)
	if b == nil {
		return nil, api.Errorf(api.NotFound, "no process has said hello with this boot id")
	}
	policy := p.policy()
	timeout := policy.timeout(r.Timeout)
	limits := p.opts.Limits
	limits.MaxSeconds = policy.MaxTimeout.Seconds()
	call, err := json.Marshal(frame{"call", target, append([]json.RawMessage{}, r.Args...), kwargs(r.Kwargs), r.Stream, limits})
	if err != nil {
		return nil, api.Errorf(api.BadRequest, "cannot read the call: %w", err)
	}
	c.copy = b.copy(compact(target))
	c.copy.Egress = p.opts.Policy.egress(r.Tool, target)
	c.run = &wire.Request{Call: call, TimeoutSeconds: timeout.Seconds()}
	return c, nil
}

func kwargs(given map[string]json.RawMessage) map[string]json.RawMessage {
	if given == nil {
		return map[string]json.RawMessage{}
	}
	return given
}

// compact is a target in one spelling, so that equal ones make equal copies.
func compact(target []byte) json.RawMessage {
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(target))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return target
	}
	b, err := json.Marshal(v)
	if err != nil {
		return target
	}
	return b
}

// run runs a prepared call, and counts and logs how it ended.
func (p *Proxy) run(ctx context.Context, c *prepared, sink wire.Sink) ([]byte, *api.Error) {
	start := time.Now()
	res, err := p.opts.Runner.Call(ctx, c.copy, c.run, sink)
	var e *api.Error
	switch {
	case err != nil:
		e = api.From(err)
	case res == nil:
		e = api.Errorf(api.Internal, "the call ended without a result").MaybeRan()
	default:
		e = lost(res, c.run.Timeout())
	}
	p.ended(c, res, e, time.Since(start))
	if e != nil {
		return nil, e
	}
	document, err := document(res)
	if err != nil {
		return nil, api.Errorf(api.Internal, "cannot encode the answer: %w", err).MaybeRan()
	}
	return document, nil
}

// lost is the error of a call that ended without the copy's word.
func lost(res *wire.Result, timeout time.Duration) *api.Error {
	switch {
	case res.Call != nil:
		return nil
	case res.Outcome == wire.Timeout:
		return api.Errorf(api.Timeout, "the tool took too long: it did not end within its timeout of %s", timeout).MaybeRan().Because("timeout")
	}
	e := api.Errorf(api.SandboxLost, "the tool ended its sandbox before it returned: %s", res.Reason).MaybeRan().Because(string(res.Outcome))
	e.Retry = false // it would end the next one as well
	return e
}

// document is the answer to a call that ended with the copy's word.
func document(res *wire.Result) ([]byte, error) {
	about, err := json.Marshal(struct {
		Stdout       string      `json:"stdout"`
		Stderr       string      `json:"stderr"`
		SandboxID    string      `json:"sandbox_id"`
		Warm         bool        `json:"warm"`
		Timing       wire.Timing `json:"timing"`
		EgressDenied []string    `json:"egress_denied,omitempty"`
	}{res.Stdout, res.Stderr, res.SandboxID, res.Warm, res.Timing, res.EgressDenied})
	if err != nil {
		return nil, err
	}
	word := bytes.TrimSpace(res.Call)
	if len(word) < 2 || word[0] != '{' || word[len(word)-1] != '}' {
		return nil, fmt.Errorf("the sandbox's word is not an object")
	}
	var b bytes.Buffer
	b.Write(word[:len(word)-1])
	if len(bytes.TrimSpace(word[1:len(word)-1])) > 0 {
		b.WriteByte(',')
	}
	b.Write(about[1:])
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func answer(rc *fasthttp.RequestCtx, v any) *api.Error {
	b, err := json.Marshal(v)
	if err != nil {
		return api.Errorf(api.Internal, "cannot encode the answer: %w", err)
	}
	return answerRaw(rc, append(b, '\n'))
}

func answerRaw(rc *fasthttp.RequestCtx, body []byte) *api.Error {
	rc.SetContentType("application/json")
	rc.SetBody(body)
	return nil
}
