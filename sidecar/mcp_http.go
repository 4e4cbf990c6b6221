package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
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
	if w.status >= 400 && w.status < 500 {
		if id, unknown := unknownMethod(body); unknown {
			return methodNotFound(ctx, id)
		}
	}
	return w.answer(ctx)
}

// mcpMethods are the requests that this server exists for: when the SDK refuses
// one, its refusal says why.
var mcpMethods = []string{"initialize", "ping", "tools/list", "tools/call"}

// unknownMethod says whether a refused body asks for a method that is not
// served, which the SDK tells in plain text and a client wants told in JSON-RPC.
// A notification has no id.
func unknownMethod(body []byte) (id json.RawMessage, unknown bool) {
	var call struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
	}
	if json.Unmarshal(body, &call) != nil || call.Version != "2.0" || call.Method == "" {
		return nil, false
	}
	return call.ID, !slices.Contains(mcpMethods, call.Method)
}

// methodNotFound answers as JSON-RPC 2.0 has it: an error of its own for a
// request, and nothing for a notification.
func methodNotFound(ctx *fasthttp.RequestCtx, id json.RawMessage) *api.Error {
	if id == nil {
		ctx.SetStatusCode(fasthttp.StatusAccepted)
		return nil
	}
	return sendJSON(ctx, map[string]any{
		"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": -32601, "message": "method not found: this server has tools/list and tools/call"},
	})
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
