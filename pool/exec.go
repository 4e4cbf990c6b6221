package pool

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// maxTries bounds the sandboxes tried for one run when they turn out to be
// lost before anything was sent.
const maxTries = 3

var errNoAnswer = errors.New("the sandbox did not answer in time")

// Exec claims a sandbox, runs one request in it and releases it; the sandbox
// is destroyed in the background. The error is an *api.Error.
func (p *Pool) Exec(ctx context.Context, c Caller, t Template, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	run := &execution{
		pool: p, caller: c, template: t, req: req, sink: sink,
		id: rand.Text(), asked: api.TraceOf(ctx).RequestID, begun: time.Now(), timeout: req.Timeout(),
	}
	if run.timeout < 0 || run.timeout > t.Limits.MaxRun {
		return nil, api.Errorf(api.BadRequest, "cannot run: timeout_seconds must be between 0 and %g", t.Limits.MaxRun.Seconds())
	}
	if run.timeout == 0 {
		run.timeout = t.Limits.MaxRun
	}
	for range maxTries {
		res, err := run.try(ctx)
		if err == nil {
			return res, nil
		}
		run.err = err
		if !run.lost {
			break
		}
	}
	run.failed()
	return nil, run.err
}

// execution is one run on its way through the pool.
type execution struct {
	pool     *Pool
	caller   Caller
	template Template
	req      *wire.Request
	sink     wire.Sink

	id      string
	asked   string // the caller's request id
	begun   time.Time
	timeout time.Duration
	queued  time.Duration

	sandbox string     // the last one tried
	lost    bool       // it was lost before anything was sent
	err     *api.Error // why the last try failed
}

// try runs the request in one sandbox.
func (e *execution) try(ctx context.Context) (*wire.Result, *api.Error) {
	e.lost = false
	lease, err := e.pool.claim(ctx, e.caller, e.template)
	if err != nil {
		e.pool.metrics.refused(err.Code)
		return nil, err
	}
	e.pool.metrics.claimed(lease)
	defer lease.Release()
	e.sandbox = lease.Sandbox.ID()
	e.queued += lease.Queued

	started := time.Now()
	limit, cancel := context.WithTimeoutCause(ctx, e.timeout+e.pool.opts.Grace, errNoAnswer)
	defer cancel()
	res, failure := lease.Sandbox.Run(limit, e.req, e.sink)
	if failure == nil && res == nil {
		failure = errors.New("it gave no answer")
	}
	if failure != nil {
		err = runError(limit, failure)
		if e.lost = err.Code == api.SandboxLost && err.Executed == api.No; e.lost {
			e.pool.release(lease.record, causeLost)
		}
		return nil, err
	}
	e.finish(lease, res, started)
	return res, nil
}

// runError says what a failed Run is to the caller. Only what the driver marks
// as not run is taken as not run.
func runError(ctx context.Context, err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	if ctx.Err() != nil {
		return api.Errorf(api.Timeout, "cannot finish the run: %w", context.Cause(ctx)).MaybeRan()
	}
	return api.Errorf(api.SandboxLost, "cannot finish the run: the sandbox was lost: %w", err).MaybeRan()
}

// finish fills in what the pool knows of a run, and tells of it.
func (e *execution) finish(lease *Lease, res *wire.Result, started time.Time) {
	ran := time.Since(started)
	claimed := started.Sub(e.begun) - e.queued
	res.RunID, res.SandboxID, res.Warm = e.id, e.sandbox, lease.Warm
	res.Timing.QueueMS, res.Timing.ClaimMS = milliseconds(e.queued), milliseconds(claimed)
	if res.Timing.RunMS == 0 {
		res.Timing.RunMS = milliseconds(ran)
	}
	e.pool.metrics.ran(res.Outcome, e.queued, claimed, ran)
	e.pool.log.Info("run ended", "run", e.id, "request_id", e.asked, "sandbox", e.sandbox,
		"tenant", e.caller.Tenant, "caller", e.caller.Name, "template", lease.record.home.key,
		"outcome", string(res.Outcome), "exit_code", res.ExitCode, "warm", lease.Warm,
		"queue_ms", res.Timing.QueueMS, "claim_ms", res.Timing.ClaimMS, "run_ms", res.Timing.RunMS)
}

// failed tells of a run that got no result.
func (e *execution) failed() {
	e.pool.metrics.failed(e.err.Code)
	e.pool.log.Info("run failed", "run", e.id, "request_id", e.asked, "sandbox", e.sandbox,
		"tenant", e.caller.Tenant, "caller", e.caller.Name,
		"code", string(e.err.Code), "executed", string(e.err.Executed), "error", e.err.Message)
}

func milliseconds(d time.Duration) float64 {
	return float64(d) / float64(time.Millisecond)
}
