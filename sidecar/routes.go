package sidecar

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// A handler answers one request: it sets the answer in ctx, or returns the
// error that is sent.
type handler func(ctx *fasthttp.RequestCtx, x *exchange) *api.Error

type route struct {
	method string // GET stands for HEAD too
	handler
	bodyBytes int    // the most that the body of a POST may have
	parameter string // of the URL; "" for none
}

// table is every path of the API port.
func (s *Server) table() map[string]route {
	most := s.Limits.Request.BodyBytes
	return map[string]route{
		"/run_python":    {method: "POST", handler: s.runPython, bodyBytes: most},
		"/v1/run_python": {method: "POST", handler: s.runPython, bodyBytes: most},
		"/mcp":           {method: "POST", handler: s.serveMCP, bodyBytes: most},
		"/limits":        {method: "GET", handler: s.serveLimits},
		"/tool":          {method: "GET", handler: s.serveTool, parameter: "format"},
		"/openapi.yaml":  {method: "GET", handler: serveOpenAPI},
		"/healthz":       {method: "GET", handler: s.healthz},
	}
}

// paths lists what the API port serves, for the answer to another path.
func (s *Server) paths() string {
	var all []string
	for path, r := range s.routes {
		all = append(all, r.method+" "+path)
	}
	slices.SortFunc(all, func(a, b string) int {
		_, a, _ = strings.Cut(a, "/")
		_, b, _ = strings.Cut(b, "/")
		return strings.Compare(a, b)
	})
	return strings.Join(all, ", ")
}

// handle is the door of the API port: every request passes it, a panic behind
// it becomes an answer, and every answer is counted.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	x := newExchange(ctx)
	err := s.guarded(ctx, x)
	discardBody(ctx)
	if err != nil {
		s.fail(ctx, x, err)
	}
	if !x.streaming {
		s.metrics.answered(x.code, time.Since(x.start), len(ctx.Response.Body()))
	}
}

func (s *Server) guarded(ctx *fasthttp.RequestCtx, x *exchange) (err *api.Error) {
	defer func() {
		if p := recover(); p != nil {
			ctx.Response.Reset()
			x.reset(ctx)
			err = s.panicked(p, x.RequestID)
		}
	}()
	if err := s.tooManyConnections(ctx); err != nil {
		return err
	}
	if err := plain(ctx); err != nil {
		return err
	}
	if err := s.sameHost(ctx); err != nil {
		return err
	}
	return s.dispatch(ctx, x)
}

func (s *Server) dispatch(ctx *fasthttp.RequestCtx, x *exchange) *api.Error {
	r, ok := s.routes[string(ctx.Path())]
	if !ok {
		return api.Errorf(api.NotFound, "there is no %q here: the paths are %s", request.Clip(string(ctx.Path())), s.paths())
	}
	if method := string(ctx.Method()); method != r.method && (method != "HEAD" || r.method != "GET") {
		allow := r.method
		if allow == "GET" {
			allow = "GET, HEAD"
		}
		ctx.Response.Header.Set("Allow", allow)
		return api.Errorf(api.MethodNotAllowed, "%s is asked for with %s, not with %s", ctx.Path(), r.method, request.Clip(method))
	}
	if err := r.parameters(ctx); err != nil {
		return err
	}
	return r.handler(ctx, x)
}

// parameters refuses those of the URL that would be ignored: whoever writes
// ?timeout=5 means it.
func (r route) parameters(ctx *fasthttp.RequestCtx) *api.Error {
	found := false
	for name := range ctx.QueryArgs().All() {
		if r.parameter == "" || string(name) != r.parameter {
			return api.Errorf(api.BadRequest, "%s has no parameter %q in its URL: %s", ctx.Path(), request.Clip(string(name)), r.instead())
		}
		if found {
			return api.Errorf(api.BadRequest, "the URL has the parameter %s more than once: give it once", r.parameter)
		}
		found = true
	}
	return nil
}

// instead says where what was meant goes.
func (r route) instead() string {
	switch {
	case r.parameter != "":
		return "it has " + r.parameter
	case r.method == "POST":
		return "what a request says goes into its body"
	}
	return "it has none"
}

// tooManyConnections refuses what is over the limit, in words, and closes that
// connection.
func (s *Server) tooManyConnections(ctx *fasthttp.RequestCtx) *api.Error {
	if int(s.api.GetOpenConnectionsCount()) <= s.Limits.Server.Connections {
		return nil
	}
	ctx.SetConnectionClose()
	return api.Errorf(api.Busy, "more than %d connections are open, which is the limit: close some, or reuse them", s.Limits.Server.Connections).After(time.Second)
}

// panicked counts and logs a panic, and makes the answer of it.
func (s *Server) panicked(p any, requestID string) *api.Error {
	s.metrics.panics.Inc()
	s.Logger.Error("panic in a handler", "request_id", requestID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return api.Errorf(api.Internal, "the sidecar failed on this request; its log says more under the request id %s", requestID).MaybeRan()
}

// malformed answers what never became a request.
func (s *Server) malformed(ctx *fasthttp.RequestCtx, cause error) {
	x := newExchange(ctx)
	e := api.Errorf(api.BadRequest, "cannot read the request: it is not well-formed HTTP/1.1 (%s)", request.Clip(innermost(cause).Error()))
	if _, ok := errors.AsType[*fasthttp.ErrSmallBuffer](cause); ok {
		e = api.Errorf(api.TooLarge, "cannot read the request: its headers are over the limit of %d bytes", maxHeaders)
	} else if n, ok := errors.AsType[net.Error](cause); ok && n.Timeout() {
		e = api.Errorf(api.BadRequest, "cannot read the request: it did not arrive within %v s", s.Limits.Server.Read)
	}
	s.fail(ctx, x, e)
	s.metrics.answered(x.code, time.Since(x.start), len(ctx.Response.Body()))
}

// innermost is the error that the others are about.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// maxDiscard is how much of an unread body is read and dropped before an
// answer. A client that sends all before it listens would lose the answer
// otherwise; beyond this the connection is closed after the answer.
const maxDiscard = 1 << 30

func discardBody(ctx *fasthttp.RequestCtx) {
	if body := ctx.RequestBodyStream(); body != nil {
		// An error shows again when fasthttp reads on; the answer goes out.
		_, _ = io.Copy(io.Discard, io.LimitReader(body, maxDiscard))
	}
}

func (s *Server) healthz(ctx *fasthttp.RequestCtx, _ *exchange) *api.Error {
	return sendJSON(ctx, struct {
		Status    string `json:"status"`
		Isolation string `json:"isolation"`
	}{"ok", s.limits().Sandbox.Isolation})
}
