package sidecar

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// once are the headers that decide what becomes of a request, and that have one
// value: who takes the first of two and who the last would not agree. (A second
// Host, Content-Length or Transfer-Encoding is no HTTP/1.1, and never gets here.)
var once = [...]string{"Authorization", "Content-Type", "Content-Encoding", "Expect", "Host", "Origin", "Sec-Fetch-Site", "X-Request-Id", "Traceparent"}

// plain refuses a request whose headers can be read in two ways, or ask for what
// is not done here.
func plain(ctx *fasthttp.RequestCtx) *api.Error {
	if name := repeated(ctx.Request.Header.RawHeaders()); name != "" {
		return api.Errorf(api.BadRequest, "the request has more than one %s header: send one", name)
	}
	if expect := ctx.Request.Header.Peek("Expect"); len(expect) > 0 && !strings.EqualFold(string(expect), "100-continue") {
		return api.Errorf(api.BadRequest, "the header Expect is %q: only 100-continue can be met here", request.Clip(string(expect)))
	}
	return nil
}

// expected answers who waits to be asked for a body, and says with which status:
// one that is over its limit is not asked for.
func (s *Server) expected(ctx *fasthttp.RequestCtx) int {
	r, ok := s.routes[string(ctx.Path())]
	if !ok || r.method != string(ctx.Method()) || ctx.Request.Header.ContentLength() <= r.bodyBytes {
		return fasthttp.StatusContinue
	}
	s.handle(ctx) // which refuses such a length before it looks for the body
	return ctx.Response.StatusCode()
}

// repeated is the name of a header of once that stands there twice, or "".
// fasthttp itself keeps the last value of some of them, and the first of others.
func repeated(raw []byte) string {
	var seen [len(once)]bool
	for line := range bytes.Lines(raw) {
		name, _, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		for i, known := range once {
			if !strings.EqualFold(known, string(name)) {
				continue
			}
			if seen[i] {
				return known
			}
			seen[i] = true
		}
	}
	return ""
}

// idempotencyKey is the request's key, or "" when it has none. The same one
// twice is one.
func idempotencyKey(ctx *fasthttp.RequestCtx) (string, *api.Error) {
	all := ctx.Request.Header.PeekAll("Idempotency-Key")
	if len(all) == 0 {
		return "", nil
	}
	for _, other := range all {
		if !bytes.Equal(other, all[0]) {
			return "", api.Errorf(api.BadRequest, "there are two different Idempotency-Key headers: a request has one key")
		}
	}
	key := token(all[0], maxKey)
	if key == "" {
		return "", api.Errorf(api.BadRequest, "the Idempotency-Key must have 1 to %d visible ASCII characters and no space", maxKey)
	}
	return key, nil
}
