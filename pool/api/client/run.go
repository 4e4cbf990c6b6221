package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Run executes one request in a sandbox of the pool. It asks one replica after
// the other while nothing of the program was sent to any, and waits for one as
// long as the time beside the program's own allows. The error is an *api.Error.
func (c *Client) Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	return c.run(ctx, api.RunBody{Request: req, Stream: sink != nil}, sink)
}

// Call executes one tool call in a copy of the caller's own program. It keeps
// the promises of Run.
func (c *Client) Call(ctx context.Context, program *wire.Copy, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	return c.run(ctx, api.RunBody{Request: req, Copy: program, Stream: sink != nil}, sink)
}

func (c *Client) run(ctx context.Context, run api.RunBody, sink wire.Sink) (*wire.Result, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(run); err != nil {
		return nil, api.Errorf(api.BadRequest, "cannot encode the request: %w", err)
	}
	giveUp := c.giveUp(ctx, run.Request, time.Now())
	for {
		res, err := c.round(ctx, body.Bytes(), sink)
		if err == nil || !err.again {
			return res, err.known()
		}
		if !time.Now().Add(retryEvery).Before(giveUp) || !wait(ctx, retryEvery) {
			return nil, err.unreached(ctx)
		}
		c.replicas.refreshAfter(ctx, lookupSooner)
	}
}

// margin is what is left of a client's time when the pool's has passed, so that
// it is the pool that says what became of the run.
func margin(left time.Duration) time.Duration { return min(500*time.Millisecond, left/10) }

// giveUp is when it is too late to begin: the program would not have its time.
func (c *Client) giveUp(ctx context.Context, req *wire.Request, now time.Time) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return now.Add(c.opts.Patience)
	}
	left := deadline.Sub(now)
	return deadline.Add(-margin(left) - min(req.Timeout(), left/2))
}

// failure is why an attempt got no result.
type failure struct {
	err *api.Error
	// again is set when nothing of the program was sent: another may be asked.
	again bool
}

func (f *failure) known() error {
	if f == nil {
		return nil
	}
	return f.err
}

// unreached is the error when no replica took the run in time.
func (f *failure) unreached(ctx context.Context) *api.Error {
	if ctx.Err() != nil {
		return api.Errorf(api.Timeout, "cannot begin the run: %w", context.Cause(ctx))
	}
	return api.Errorf(api.NoCapacity, "no replica of the pool took the run in time: %w", f.err).After(time.Second)
}

// round asks each replica until one takes the run.
func (c *Client) round(ctx context.Context, body []byte, sink wire.Sink) (*wire.Result, *failure) {
	addresses, err := c.replicas.order(ctx, time.Now())
	if err != nil {
		return nil, &failure{err: api.Errorf(api.NoCapacity, "%w", err), again: true}
	}
	var last *failure
	for _, address := range addresses {
		res, err := c.attempt(ctx, address, body, sink)
		if err == nil || !err.again || ctx.Err() != nil {
			return res, err
		}
		c.replicas.bad(address, time.Now())
		last = err
	}
	return nil, last
}

// attempt asks one replica. A token that is refused may just have been renewed.
func (c *Client) attempt(ctx context.Context, address string, body []byte, sink wire.Sink) (*wire.Result, *failure) {
	token, err := c.token.read()
	if err != nil {
		return nil, &failure{err: api.Errorf(api.NoCapacity, "cannot read the token for the pool: %w", err), again: true}
	}
	res, failed := c.exchange(ctx, address, token, body, sink)
	if failed != nil && failed.err.Code == api.Unauthenticated && failed.err.Executed == api.No {
		if renewed, err := c.token.read(); err == nil && renewed != token {
			return c.exchange(ctx, address, renewed, body, sink)
		}
	}
	return res, failed
}

// broken is the failure of an exchange that did not come to its end.
func broken(ctx context.Context, p *program, err error) *failure {
	if p.withdraw() {
		if ctx.Err() != nil {
			return &failure{err: api.Errorf(api.Timeout, "cannot begin the run: %w", context.Cause(ctx))}
		}
		return &failure{err: api.Errorf(api.NoCapacity, "cannot reach the pool: %w", err), again: true}
	}
	if ctx.Err() != nil {
		return &failure{err: api.Errorf(api.Timeout, "cannot finish the run: %w", context.Cause(ctx)).MaybeRan()}
	}
	return &failure{err: api.Errorf(api.SandboxLost, "cannot finish the run: the pool went away while it was in flight: %w", err).MaybeRan()}
}

var errLate = fmt.Errorf("the replica did not let the run in within %v", admitTimeout)
