package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	// maxRequest is more than the sidecar lets through.
	maxRequest = 40 << 20
	// maxDepth bounds the nesting of a request; it needs four.
	maxDepth = 32
	// grace is what a run may take beyond its timeout before the runner ends.
	grace = 10 * time.Second
	// lineBound is how long the pool may take to take a line.
	lineBound = 10 * time.Second
)

// run serves the one run.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	var req wire.Request
	nonce := r.Header.Get(protocol.NonceHeader)
	err := decode(w, r, maxRequest, s.depth(), &req)
	if err == nil {
		err = s.check(&req, nonce)
	}
	if err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			refuse(w, http.StatusRequestEntityTooLarge, api.Errorf(api.TooLarge, "the request has more than %d bytes", tooLarge.Limit))
			return
		}
		refuse(w, http.StatusBadRequest, api.Errorf(api.BadRequest, "cannot read the request of a run: %w", err))
		return
	}
	if s.config.Copy && !s.prepared.Load() {
		refuse(w, http.StatusConflict, api.Errorf(api.Conflict, "the copy was not made ready"))
		return
	}
	if !s.isReady(w, r) {
		return
	}
	if !s.claim() {
		gone(w)
		return
	}
	defer close(s.finished)
	late := time.AfterFunc(s.timeout(&req)+grace, func() { close(s.overdue) })
	defer late.Stop()
	s.execute(w, r, &req, nonce)
}

// depth is how deep a request may be nested.
func (s *Server) depth() int {
	if s.config.Copy {
		return maxCallDepth
	}
	return maxDepth
}

func (s *Server) timeout(req *wire.Request) time.Duration {
	if t := req.Timeout(); t > 0 {
		return t
	}
	return s.config.Limits.MaxRun
}

func (s *Server) execute(w http.ResponseWriter, r *http.Request, req *wire.Request, nonce string) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	out := &lines{to: http.NewResponseController(w), w: w, failed: cancel}
	w.Header().Set("Content-Type", "application/x-ndjson")
	var sink wire.Sink
	if r.Header.Get(protocol.StreamHeader) != "none" {
		sink = func(stream wire.Stream, text string) { out.send(protocol.Line{Stream: stream, Text: text}) }
	}
	s.interpreter.Process.Closed = s.closed.Load()
	var res *wire.Result
	var err error
	if s.config.Copy {
		res, err = s.interpreter.Process.Call(ctx, req, s.nonce, told(s.config.Limits), sink)
	} else {
		res, err = s.interpreter.Process.Execute(ctx, req, told(s.config.Limits), sink)
	}
	last := protocol.Line{Nonce: nonce, Result: res}
	if err != nil {
		last.Error = api.From(err)
	} else {
		res.Isolation = s.config.Isolation
	}
	out.send(last)
	s.interpreter.Process.Kill() // what the program left running
}

// told are the limits as results speak of them: where the runner cannot bound
// the processes, the node does, with a number of its own.
func told(l wire.Limits) wire.Limits {
	if !ownUsers() {
		l.Processes = 0
	}
	return l
}

// check refuses what is no run.
func (s *Server) check(req *wire.Request, nonce string) error {
	switch {
	case nonce == "" || len(nonce) > protocol.MaxNonce:
		return fmt.Errorf("its %s header must have 1 to %d characters", protocol.NonceHeader, protocol.MaxNonce)
	case (req.Call != nil) != s.config.Copy:
		return errors.New("a tool call is for a copy of the agent's program, and for nothing else")
	case req.TimeoutSeconds < 0 || req.TimeoutSeconds > s.config.Limits.MaxRun.Seconds():
		return fmt.Errorf("its timeout_seconds must be between 0 and %g", s.config.Limits.MaxRun.Seconds())
	}
	return nil
}

// readJSON reads one value and nothing after it.
func readJSON(r io.Reader, depth int, into any) error {
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if wire.Depth(body) > depth {
		return fmt.Errorf("it is nested deeper than %d levels", depth)
	}
	return json.Unmarshal(body, into)
}

// lines writes lines of JSON, each flushed and in bounded time: a caller that
// takes nothing must not hold the run up.
type lines struct {
	mu     sync.Mutex
	to     *http.ResponseController
	w      io.Writer
	failed context.CancelCauseFunc
	broken bool
}

func (l *lines) send(line protocol.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return
	}
	err := l.to.SetWriteDeadline(time.Now().Add(lineBound))
	if err == nil {
		err = json.NewEncoder(l.w).Encode(line)
	}
	if err == nil {
		err = l.to.Flush()
	}
	if err != nil {
		l.broken = true
		l.failed(fmt.Errorf("the caller takes no more: %w", err))
	}
}
