package sidecar

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Why a run's context may end.
var (
	errGone = errors.New("the caller closed the connection, or its sending side, before the answer")
	errLate = errors.New("the run did not end within its timeout and the time to wait for a sandbox")
)

// patience is how long a Runner may take to return once its context has ended.
const patience = 5 * time.Second

// flight is one execution, for which one or more callers wait.
type flight struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when answer is set
	answer answer
	// overdue is closed when the Runner has not returned for a while though
	// ctx has ended: then the callers are answered without it.
	overdue chan struct{}

	mu      sync.Mutex
	callers int
}

// launch starts a run in a goroutine of its own. It is ended when the last of
// its callers leaves.
func (s *Server) launch(t api.Trace, req *wire.Request, sink wire.Sink, landed func(answer)) *flight {
	f := &flight{done: make(chan struct{}), overdue: make(chan struct{})}
	limit := req.Timeout() + s.Limits.Server.Wait.Duration()
	timed, stopTimer := context.WithTimeoutCause(api.WithTrace(s.base, t), limit, errLate)
	f.ctx, f.cancel = context.WithCancelCause(timed)
	s.runs.Go(func() {
		defer stopTimer()
		defer f.cancel(nil)
		// Timers start only when the context ends, not on every run.
		disarm := context.AfterFunc(f.ctx, f.lateWatch)
		f.answer = s.execute(f.ctx, t, req, sink)
		disarm()
		if landed != nil {
			landed(f.answer)
		}
		close(f.done)
	})
	return f
}

// lateWatch waits a while for the Runner of a flight whose context has ended.
func (f *flight) lateWatch() {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-f.done:
	case <-late.C:
		close(f.overdue)
	}
}

// execute calls the Runner and makes an answer of whatever it does.
func (s *Server) execute(ctx context.Context, t api.Trace, req *wire.Request, sink wire.Sink) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = answer{err: s.panicked(p, t.RequestID)}
		}
	}()
	res, err := s.Runner.Run(ctx, req, sink)
	switch {
	case err != nil && ctx.Err() != nil:
		return answer{err: ended(ctx, err)}
	case err != nil:
		return answer{err: api.From(err)}
	case res == nil:
		return answer{err: api.Errorf(api.Internal, "the run ended without a result").MaybeRan()}
	}
	return answer{result: res}
}

// ended is the error of a run whose context ended before it did. Whether
// anything ran, the Runner knows best.
func ended(ctx context.Context, err error) *api.Error {
	cause := context.Cause(ctx)
	e := api.Errorf(api.Internal, "%w", cause)
	switch {
	case errors.Is(cause, errGone):
		e = goneError()
	case errors.Is(cause, errLate):
		e = api.Errorf(api.Timeout, "%w", cause)
	case errors.Is(cause, errDrained):
		e = api.Errorf(api.NoCapacity, "%w", cause).After(time.Second)
	}
	if api.From(err).Executed != api.No {
		e = e.MaybeRan()
	}
	return e
}

func goneError() *api.Error {
	return api.Errorf(api.BadRequest, "%w, so the run was ended; a new request, with a new Idempotency-Key if it has one, runs it again", errGone)
}

// landed says whether the answer is there.
func (f *flight) landed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// caller is one request that waits for a flight.
type caller struct {
	*flight
	left sync.Once
	// dropped is closed when this caller has left and others still wait.
	dropped chan struct{}
}

// board adds a caller. One that boards after the last has left gets the answer
// of a run that was ended.
func (f *flight) board() *caller {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callers++
	return &caller{flight: f, dropped: make(chan struct{})}
}

// leave takes the caller away; when it was the last, the run is ended.
func (c *caller) leave(why error) {
	c.left.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.callers--; c.callers == 0 {
			c.cancel(why)
		} else {
			close(c.dropped)
		}
	})
}

// wait is the run's answer; or an error when the caller has left, or when the
// Runner does not return though its context has ended.
func (c *caller) wait() answer {
	select {
	case <-c.done:
		return c.answer
	case <-c.dropped:
		return answer{err: goneError().MaybeRan()}
	case <-c.overdue:
		return answer{err: ended(c.ctx, context.Cause(c.ctx))}
	}
}
