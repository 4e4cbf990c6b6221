package sidecar

import (
	"crypto/sha256"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// runPython serves POST /run_python.
func (s *Server) runPython(ctx *fasthttp.RequestCtx, x *exchange) *api.Error {
	in, err := s.header(ctx)
	if err != nil {
		return err
	}
	if err := s.gate.enter(1, in.size); err != nil {
		if in.key != "" && s.keys.has(in.key) {
			return err.MaybeRan()
		}
		return err
	}
	v := &visit{leave: func() { s.gate.leave(1, in.size) }}
	defer func() {
		if !x.streaming {
			v.end(nil)
		}
	}()
	req, digest, err := s.request(ctx, in)
	if err != nil {
		return err
	}
	var st *stream
	var sink wire.Sink
	if in.events != noEvents {
		st = newStream(s, ctx.Conn(), in.events, x, v)
		sink = st.push
	}
	if err := s.start(ctx, x, v, req, sink, in.key, digest); err != nil {
		return err
	}
	v.unwatch = s.gone.watch(ctx.Conn(), v.hungUp)
	if st != nil && st.begin() {
		x.streaming = true
		ctx.SetContentType(string(in.events))
		ctx.Response.ImmediateHeaderFlush = true
		ctx.SetBodyStream(st, -1)
		return nil
	}
	a := v.caller.wait()
	if a.err != nil {
		return a.err
	}
	return s.send(ctx, a.result)
}

// start launches the run, or joins the one that has its key.
func (s *Server) start(ctx *fasthttp.RequestCtx, x *exchange, v *visit, req *wire.Request, sink wire.Sink, key string, digest [sha256.Size]byte) *api.Error {
	if key == "" {
		v.caller = s.launch(x.Trace, req, sink, nil).board()
		return nil
	}
	c, replayed, err := s.keys.board(key, digest, func(landed func(answer)) *flight {
		return s.launch(x.Trace, req, sink, landed)
	})
	v.caller = c
	if replayed {
		ctx.Response.Header.Set("Idempotency-Replayed", "true")
	}
	return err
}

// preamble is what the headers of a request say.
type preamble struct {
	json   bool
	size   int64 // the body's, at most
	key    string
	events events
}

func (s *Server) header(ctx *fasthttp.RequestCtx) (in preamble, err *api.Error) {
	if in.json, err = contentType(ctx); err != nil {
		return in, err
	}
	if in.size, err = s.declared(ctx); err != nil {
		return in, err
	}
	in.events = accepted(ctx.Request.Header.PeekAll("Accept"))
	in.key, err = idempotencyKey(ctx)
	return in, err
}

// request reads and checks the body. The digest tells two bodies apart.
func (s *Server) request(ctx *fasthttp.RequestCtx, in preamble) (*wire.Request, [sha256.Size]byte, *api.Error) {
	var digest [sha256.Size]byte
	body, err := readBody(ctx, s.Limits.Request.BodyBytes)
	if err != nil {
		return nil, digest, err
	}
	parse, kind := request.ParseSource, "source"
	if in.json {
		parse, kind = request.ParseJSON, "json"
	}
	if in.key != "" {
		h := sha256.New()
		h.Write([]byte(kind + "\n"))
		h.Write(body)
		h.Sum(digest[:0])
	}
	req, err := parse(body, s.limits().Request)
	return req, digest, err
}

// visit is what one request holds until its answer has left.
type visit struct {
	caller  *caller
	unwatch func()
	leave   func()
	once    sync.Once
}

// end gives everything back, once. why is set when the caller is gone.
func (v *visit) end(why error) {
	v.once.Do(func() {
		if v.unwatch != nil {
			v.unwatch()
		}
		if v.caller != nil {
			v.caller.leave(why)
		}
		v.leave()
	})
}

// hungUp ends the run of a caller that is gone; the rest is given back when
// the handler or the stream has noticed.
func (v *visit) hungUp() { v.caller.leave(errGone) }
