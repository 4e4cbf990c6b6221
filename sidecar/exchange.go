package sidecar

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// exchange is one request and its answer, in what outlives the handler: all
// strings are copies.
type exchange struct {
	api.Trace
	start time.Time
	// code is what the answer is counted as: "ok" or an api.Code.
	code string
	// streaming is set when the answer goes on after the handler's return;
	// the stream counts it then.
	streaming bool
}

// newExchange takes the caller's request id, or makes one, and answers it.
func newExchange(ctx *fasthttp.RequestCtx) *exchange {
	x := &exchange{start: time.Now(), code: "ok"}
	x.Arrived = arrived(ctx.Conn(), x.start)
	x.RequestID = token(ctx.Request.Header.Peek("X-Request-Id"), 128)
	x.Traceparent = token(ctx.Request.Header.Peek("Traceparent"), 128)
	if x.RequestID == "" {
		var id [12]byte
		_, _ = rand.Read(id[:]) // never fails
		x.RequestID = hex.EncodeToString(id[:])
	}
	x.reset(ctx)
	return x
}

// reset puts the headers that every answer has into an answer begun anew.
func (x *exchange) reset(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("X-Request-Id", x.RequestID)
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.Header.Set("X-Content-Type-Options", "nosniff")
}

// token copies a header value of visible ASCII, or returns "" for another.
func token(value []byte, limit int) string {
	if len(value) > limit {
		return ""
	}
	for _, c := range value {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	return string(value)
}
