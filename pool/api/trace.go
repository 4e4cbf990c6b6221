package api

import (
	"context"
	"time"
)

// Trace says which request of the caller's a run belongs to, for logs, for
// tracing, and for its place in the queue. It travels in the context; each field
// may be empty.
type Trace struct {
	// RequestID is the caller's X-Request-Id, or one made for it.
	RequestID string
	// Traceparent is the W3C trace context header, passed on as it came.
	Traceparent string
	// Arrived is when the request came to this process: a caller's runs have
	// their turns in this order, whichever is looked at first.
	Arrived time.Time
}

type traceKey struct{}

// WithTrace puts t into ctx.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf is the Trace in ctx, or an empty one.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
