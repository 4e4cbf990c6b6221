package api

import "context"

// Trace says which request of the caller's a run belongs to, for logs and for
// tracing. It travels in the context; both fields may be empty.
type Trace struct {
	// RequestID is the caller's X-Request-Id, or one made for it.
	RequestID string
	// Traceparent is the W3C trace context header, passed on as it came.
	Traceparent string
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
