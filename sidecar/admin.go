package sidecar

import (
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// handleAdmin serves the admin port: probes and scrapes, which must never meet
// traffic and come from the node or from a collector, not from localhost.
func (s *Server) handleAdmin() fasthttp.RequestHandler {
	metrics := fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{}))
	return func(ctx *fasthttp.RequestCtx) {
		x := newExchange(ctx)
		var err *api.Error
		switch path := string(ctx.Path()); {
		case path != "/metrics" && path != "/healthz" && path != "/readyz":
			err = api.Errorf(api.NotFound, "there is no %q here: the paths are GET /healthz, GET /metrics, GET /readyz", request.Clip(path))
		case !ctx.IsGet() && !ctx.IsHead():
			ctx.Response.Header.Set("Allow", "GET, HEAD")
			err = api.Errorf(api.MethodNotAllowed, "%s is asked for with GET, not with %s", path, request.Clip(string(ctx.Method())))
		case path == "/metrics":
			metrics(ctx)
		case path == "/healthz":
			err = s.healthz(ctx, x)
		default:
			err = s.readyz(ctx)
		}
		discardBody(ctx)
		if err != nil {
			s.fail(ctx, x, err)
		}
	}
}

func (s *Server) readyz(ctx *fasthttp.RequestCtx) *api.Error {
	if s.gate.closed() {
		return api.Errorf(api.NoCapacity, "not ready: shutting down")
	}
	if s.Ready != nil {
		if err := s.Ready(); err != nil {
			return api.Errorf(api.NoCapacity, "not ready: %w", err)
		}
	}
	return s.healthz(ctx, nil)
}
