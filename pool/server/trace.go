package server

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
)

// begin puts the caller's trace into ctx and begins a span of it. What goes on
// from here carries the span, or the caller's own where nothing is traced.
func (s *Server) begin(ctx context.Context, r *http.Request, c pool.Caller) (context.Context, trace.Span) {
	t := api.Trace{RequestID: visible(r.Header.Get("X-Request-Id")), Traceparent: visible(r.Header.Get("Traceparent"))}
	if t.RequestID == "" {
		t.RequestID = rand.Text()
	}
	w3c := propagation.TraceContext{}
	ctx = w3c.Extract(ctx, propagation.HeaderCarrier(r.Header))
	ctx, span := s.Tracer.Start(ctx, "run", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("k8s.namespace.name", c.Tenant), attribute.String("code_sandbox.request_id", t.RequestID)))
	if span.IsRecording() {
		carrier := propagation.MapCarrier{}
		w3c.Inject(ctx, carrier)
		t.Traceparent = carrier.Get("traceparent")
	}
	return api.WithTrace(ctx, t), span
}

// end ends the span of a run, with one below it for each phase.
func (s *Server) end(v *visit) {
	defer v.span.End()
	if !v.span.IsRecording() {
		return
	}
	if v.err != nil {
		v.span.SetStatus(codes.Error, string(v.err.Code))
		return
	}
	res := v.result
	v.span.SetAttributes(attribute.String("code_sandbox.run_id", res.RunID), attribute.String("code_sandbox.sandbox_id", res.SandboxID),
		attribute.String("code_sandbox.outcome", string(res.Outcome)), attribute.Bool("code_sandbox.warm", res.Warm))
	ctx, at := trace.ContextWithSpan(context.Background(), v.span), v.arrived
	for _, phase := range []struct {
		name string
		ms   float64
	}{{"queue", res.Timing.QueueMS}, {"claim", res.Timing.ClaimMS}, {"sandbox", res.Timing.RunMS}} {
		until := at.Add(time.Duration(phase.ms * float64(time.Millisecond)))
		_, span := s.Tracer.Start(ctx, phase.name, trace.WithTimestamp(at))
		span.End(trace.WithTimestamp(until))
		at = until
	}
}
