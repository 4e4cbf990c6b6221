package sidecar

import (
	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// runPython serves POST /run_python.
func (s *Server) runPython(ctx *fasthttp.RequestCtx, x *exchange) *api.Error {
	isJSON, err := contentType(ctx)
	if err != nil {
		return err
	}
	size, err := s.declared(ctx)
	if err != nil {
		return err
	}
	if err := s.gate.enter(size); err != nil {
		return err
	}
	defer s.gate.leave(size)
	body, err := readBody(ctx, s.Limits.Request.BodyBytes)
	if err != nil {
		return err
	}
	parse := parseSource
	if isJSON {
		parse = parseJSON
	}
	req, err := parse(body, s.Limits.Request)
	if err != nil {
		return err
	}
	c := s.launch(x.Trace, req, nil, nil).board(true)
	defer c.leave(nil)
	defer s.gone.watch(ctx.Conn(), func() { c.leave(errGone) })()
	a := c.wait()
	if a.err != nil {
		return a.err
	}
	return s.send(ctx, a.result)
}
