package sidecar

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// serveMCP lends the SDK, which speaks net/http, one request. It is not
// fasthttp's adaptor: the body has our limit, the context ends when the caller
// hangs up, and a panic stays in this goroutine.
func (s *Server) serveMCP(ctx *fasthttp.RequestCtx, x *exchange) *api.Error {
	n, err := s.declared(ctx)
	if err != nil {
		return err
	}
	if err := s.gate.enter(0, n); err != nil {
		return err
	}
	defer s.gate.leave(0, n)
	body, err := readBody(ctx, s.Limits.Request.BodyBytes)
	if err != nil {
		return err
	}
	limit := (s.Limits.Request.MaxTimeout + s.Limits.Server.Wait).Duration() + 2*patience
	timed, stopTimer := context.WithTimeout(s.base, limit)
	defer stopTimer()
	ended, end := context.WithCancelCause(timed)
	defer end(nil)
	defer s.gone.watch(ctx.Conn(), func() { end(errGone) })()

	req := httpRequest(ctx, body).WithContext(context.WithValue(ended, mcpKey{}, mcpCall{x.Trace, ended}))
	var w recorder
	s.mcp.ServeHTTP(&w, req)
	if ended.Err() != nil && w.status == 0 {
		return goneError().MaybeRan()
	}
	return w.answer(ctx)
}

// httpRequest copies what the SDK reads of a request.
func httpRequest(ctx *fasthttp.RequestCtx, body []byte) *http.Request {
	header := make(http.Header)
	for name, value := range ctx.Request.Header.All() {
		header.Add(string(name), string(value))
	}
	return &http.Request{
		Method: string(ctx.Method()), URL: &url.URL{Path: string(ctx.Path())}, Host: string(ctx.Host()),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// recorder is a ResponseWriter that keeps the answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = make(http.Header)
	}
	return r.header
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// Flush is there because the SDK asks for it; the answer leaves whole.
func (r *recorder) Flush() {}

// answer sends what was kept; a refusal in plain text becomes an error of ours.
func (r *recorder) answer(ctx *fasthttp.RequestCtx) *api.Error {
	media, _, _ := mime.ParseMediaType(r.header.Get("Content-Type"))
	if r.status >= 400 && media != "application/json" {
		return r.refusal()
	}
	for name, values := range r.header {
		if name == "Cache-Control" || name == "Content-Length" {
			continue // ours stand
		}
		for _, v := range values {
			ctx.Response.Header.Add(name, v)
		}
	}
	ctx.SetStatusCode(max(r.status, http.StatusOK))
	ctx.Response.SetBody(r.body.Bytes())
	return nil
}

func (r *recorder) refusal() *api.Error {
	code := api.Internal
	switch {
	case r.status < 500 && r.status != http.StatusNotFound && r.status != http.StatusRequestEntityTooLarge:
		code = api.BadRequest
	case r.status == http.StatusNotFound:
		code = api.NotFound
	case r.status == http.StatusRequestEntityTooLarge:
		code = api.TooLarge
	}
	return api.Errorf(code, "the MCP server refuses the request: %s", strings.TrimSpace(r.body.String()))
}
