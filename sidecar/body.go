package sidecar

import (
	"bytes"
	"io"
	"mime"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// contentType says whether the body is JSON or the source itself.
func contentType(ctx *fasthttp.RequestCtx) (isJSON bool, _ *api.Error) {
	if enc := string(ctx.Request.Header.ContentEncoding()); enc != "" && enc != "identity" {
		return false, api.Errorf(api.BadRequest, "the Content-Encoding %q is not read here: send the body as it is", request.Clip(enc))
	}
	given := string(ctx.Request.Header.ContentType())
	media, params, err := mime.ParseMediaType(given)
	charset := strings.ToLower(params["charset"])
	switch {
	case err != nil, media != "application/json" && media != "text/x-python":
		return false, api.Errorf(api.BadRequest, "the Content-Type is %q: it must be application/json, or text/x-python for the source itself", request.Clip(given))
	case charset != "" && charset != "utf-8" && charset != "utf8":
		return false, api.Errorf(api.BadRequest, "the charset is %q: it must be utf-8", request.Clip(charset))
	}
	return media == "application/json", nil
}

// declared is how many bytes the body may have: what its header says, or the
// limit for one that comes in chunks.
func (s *Server) declared(ctx *fasthttp.RequestCtx) (int64, *api.Error) {
	limit := s.Limits.Request.BodyBytes
	switch n := ctx.Request.Header.ContentLength(); {
	case n > limit:
		return 0, bodyTooLarge(limit, n)
	case n >= 0:
		return int64(n), nil
	}
	return int64(limit), nil
}

func bodyTooLarge(limit, size int) *api.Error {
	return api.Errorf(api.TooLarge, "the body has %d bytes, over the limit of %d", size, limit)
}

// readBody copies the body. It grows with what arrives, not with what was
// announced.
func readBody(ctx *fasthttp.RequestCtx, limit int) ([]byte, *api.Error) {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return bytes.Clone(ctx.Request.Body()), nil
	}
	var b bytes.Buffer
	b.Grow(min(max(ctx.Request.Header.ContentLength(), 0), prefetch) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(stream, int64(limit)+1)); err != nil {
		return nil, api.Errorf(api.BadRequest, "cannot read the body: it did not arrive whole: %w", err)
	}
	if b.Len() <= limit {
		return b.Bytes(), nil
	}
	rest, _ := io.Copy(io.Discard, io.LimitReader(stream, maxDiscard))
	return nil, bodyTooLarge(limit, b.Len()+int(rest))
}
