package sidecar

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// answer is what came of a run: a result, or an error of ours.
type answer struct {
	result *wire.Result
	err    *api.Error
}

// writeJSON encodes v without HTML escaping: output with < and & stays
// readable, and nothing here is ever HTML.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// send answers with a result.
func (s *Server) send(ctx *fasthttp.RequestCtx, res *wire.Result) *api.Error {
	ctx.Response.Header.Set("X-Sandbox-Id", headerSafe(res.SandboxID))
	return sendJSON(ctx, lists(res))
}

func sendJSON(ctx *fasthttp.RequestCtx, v any) *api.Error {
	ctx.SetContentType("application/json")
	if err := writeJSON(ctx.Response.BodyWriter(), v); err != nil {
		ctx.Response.ResetBody()
		return api.Errorf(api.Internal, "cannot encode the answer: %w", err).MaybeRan()
	}
	return nil
}

// lists is res with [] for every list that is nil: a client may loop over all.
func lists(res *wire.Result) *wire.Result {
	if res.Files != nil && res.FilesOmitted != nil && res.Denied != nil {
		return res
	}
	r := *res
	if r.Files == nil {
		r.Files = []wire.File{}
	}
	if r.FilesOmitted == nil {
		r.FilesOmitted = []wire.OmittedFile{}
	}
	if r.Denied == nil {
		r.Denied = []wire.Denial{}
	}
	return &r
}

type errorBody struct {
	Error *api.Error `json:"error"`
}

// fail answers with an error and logs one that is ours.
func (s *Server) fail(ctx *fasthttp.RequestCtx, x *exchange, e *api.Error) {
	e = sound(e)
	x.code = string(e.Code)
	s.logFailure(x, e)
	ctx.SetStatusCode(e.Status())
	if after := retryAfter(e); after > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(after))
	}
	ctx.SetContentType("application/json")
	ctx.Response.ResetBody()
	// Strings and a bool always encode, and a body buffer always takes them.
	_ = writeJSON(ctx.Response.BodyWriter(), errorBody{e})
}

func (s *Server) logFailure(x *exchange, e *api.Error) {
	if e.Status() >= 500 && e.Code != api.NoCapacity {
		s.Logger.Warn("cannot serve a run", "request_id", x.RequestID, "code", e.Code, "executed", e.Executed, "error", e.Message)
	}
}

// sound is e with what an answer needs, whatever a Runner left out.
func sound(e *api.Error) *api.Error {
	c := *e
	if c.Status() == 0 {
		c.Code = api.Internal
	}
	if c.Executed != api.No {
		c.Executed = api.Maybe
	}
	return &c
}

// retryAfter is in whole seconds, at least one for the codes that promise it.
func retryAfter(e *api.Error) int {
	seconds := int(math.Ceil(float64(e.RetryAfter) / float64(time.Second)))
	if e.Code == api.Busy || e.Code == api.NoCapacity {
		seconds = max(seconds, 1)
	}
	return seconds
}

// headerSafe drops a value that would not be one header line.
func headerSafe(v string) string { return token([]byte(v), 256) }
