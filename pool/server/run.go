package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

var (
	errDeadline = errors.New("the client's deadline has passed")
	errGone     = errors.New("the client does not read its answer")
)

// bodyTimeout bounds the arrival of a body once its run was let in.
const bodyTimeout = 30 * time.Second

// serveRun serves POST /v1/runs.
func (s *Server) serveRun(w http.ResponseWriter, r *http.Request, c pool.Caller) *api.Error {
	arrived := time.Now()
	size, within, err := s.header(r)
	if err != nil {
		return err
	}
	leave, err := s.letIn(c, size, arrived)
	if err != nil {
		return err
	}
	defer leave()
	body, err := readRun(w, r, size)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if within > 0 {
		timed, stop := context.WithDeadlineCause(ctx, arrived.Add(within), errDeadline)
		defer stop()
		ctx = timed
	}
	ctx, span := s.begin(ctx, r, c)
	v := &visit{server: s, caller: c, body: body, span: span, arrived: arrived, size: size}
	v.id = api.TraceOf(ctx).RequestID
	return v.serve(ctx, w, cancel)
}

// header is what is known before the body: its size, and how long the client
// waits, or zero.
func (s *Server) header(r *http.Request) (size int64, within time.Duration, err *api.Error) {
	switch size = r.ContentLength; {
	case size <= 0:
		return 0, 0, api.Errorf(api.BadRequest, "the request must have a body and say its Content-Length")
	case size > s.Limits.BodyBytes:
		return 0, 0, api.Errorf(api.TooLarge, "the request has %d bytes, over the limit of %d", size, s.Limits.BodyBytes)
	}
	text := r.Header.Get(api.DeadlineHeader)
	if text == "" {
		return size, 0, nil
	}
	ms, bad := strconv.ParseInt(text, 10, 64)
	if bad != nil || ms <= 0 || ms > 24*time.Hour.Milliseconds() {
		return 0, 0, api.Errorf(api.BadRequest, "the %s must be 1 to %d", api.DeadlineHeader, 24*time.Hour.Milliseconds())
	}
	return size, time.Duration(ms) * time.Millisecond, nil
}

// letIn refuses a caller who asks too often or has too much in flight, before its
// body of that size is read. leave must be called, once.
func (s *Server) letIn(c pool.Caller, size int64, arrived time.Time) (leave func(), err *api.Error) {
	if err := s.rates.allow(c, arrived); err != nil {
		s.metrics.limited(limitRate)
		return nil, err
	}
	if leave, err = s.gate.enter(c, size); err != nil {
		s.metrics.limited(limitInFlight)
		return nil, err
	}
	return leave, nil
}

// readRun reads a run.
func readRun(w http.ResponseWriter, r *http.Request, size int64) (*api.RunBody, *api.Error) {
	body := &api.RunBody{}
	if err := readBody(w, r, size, body); err != nil {
		return nil, err
	}
	switch {
	case body.Request == nil:
		return nil, api.Errorf(api.BadRequest, `cannot understand the request: "request" is missing`)
	case (body.Copy == nil) != (len(body.Request.Call) == 0):
		return nil, api.Errorf(api.BadRequest, "cannot understand the request: a tool call has a copy and a call, and a program neither")
	}
	return body, nil
}

// readBody reads the body into a value. With it read to its end, net/http sees a
// hang-up.
func readBody(w http.ResponseWriter, r *http.Request, size int64, into any) *api.Error {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // a writer in memory, in a test, has none
	raw := make([]byte, 0, size+bytes.MinRead)
	buffer := bytes.NewBuffer(raw)
	if _, err := buffer.ReadFrom(r.Body); err != nil || int64(buffer.Len()) != size {
		return api.Errorf(api.BadRequest, "cannot read the request: %w", errors.Join(err, r.Context().Err()))
	}
	// What follows is the watch for a hang-up: it has no deadline.
	_ = conn.SetReadDeadline(time.Time{})
	dec := json.NewDecoder(buffer)
	// A field that this pool does not know must not be left out in silence.
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return api.Errorf(api.BadRequest, "cannot understand the request: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return api.Errorf(api.BadRequest, "cannot understand the request: there is more after its end")
	}
	return nil
}

// visit is one run on its way through the service.
type visit struct {
	server  *Server
	id      string
	caller  pool.Caller
	body    *api.RunBody
	span    trace.Span
	arrived time.Time
	size    int64

	template pool.Template
	result   *wire.Result
	err      *api.Error
}

// serve runs and answers. The error is one that no line told yet.
func (v *visit) serve(ctx context.Context, w http.ResponseWriter, cancel context.CancelCauseFunc) *api.Error {
	out := newStream(w, func() { cancel(errGone) })
	defer out.close()
	defer v.record()
	v.run(ctx, out)
	began := out.close()
	switch {
	case v.err == nil:
		out.last(api.Line{Result: v.result})
	case began:
		out.last(api.Line{Error: sound(v.err)})
		if a, ok := w.(*watched); ok {
			a.failure = sound(v.err).Code
		}
	default:
		return v.err
	}
	return nil
}

// run executes the request in a sandbox of the pool.
func (v *visit) run(ctx context.Context, out *stream) {
	// A panic below is told as any failure is, and kept in the audit record.
	defer func() {
		if p := recover(); p != nil {
			v.err = api.Errorf(api.Internal, "the pool failed on this run").MaybeRan()
			panic(p)
		}
	}()
	var err error
	if v.template, err = v.server.Template(ctx, v.caller, v.body); err != nil {
		v.err = api.From(err)
		return
	}
	var sink wire.Sink
	if v.body.Stream {
		sink = out.push
	}
	v.result, err = v.server.Pool.Exec(ctx, v.caller, v.template, v.body.Request, sink)
	if err != nil {
		v.err = api.From(err)
	}
}

// record tells metrics, trace and audit how the run ended.
func (v *visit) record() {
	v.server.metrics.ran(v)
	v.server.end(v)
	if a := v.server.Audit; a != nil {
		if err := a.write(v.audit()); err != nil {
			v.server.metrics.auditFailures.Inc()
			v.server.Logger.Error("cannot write the audit record", "request_id", v.id, "error", err)
		}
	}
}
