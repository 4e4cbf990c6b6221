package sidecar

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// events is the media type in which a run is told as it goes, if it is.
type events string

const (
	noEvents events = ""
	sse      events = "text/event-stream"
	ndjson   events = "application/x-ndjson"
)

const (
	// maxPending bounds what waits for a slow reader. What does not fit is not
	// streamed; it stands in the end event.
	maxPending = 1 << 20
	// maxPrelude is how long an error may still become the answer's status. A
	// run that neither writes nor ends for that long has begun its stream.
	maxPrelude = time.Second
)

// stream is the body of an answer told in events. The run writes to it with
// push; the connection's goroutine reads it, and waits where it is empty.
type stream struct {
	kind      events
	conn      net.Conn
	visit     *visit
	counted   func(code string, bytes int)
	keepAlive time.Duration
	more      chan struct{} // holds a token when there may be something to read

	mu       sync.Mutex
	pending  bytes.Buffer
	sent     [2]told // stdout, stderr
	finished bool
	closed   bool
	code     string
	bytes    int
}

// told is what was streamed of one output.
type told struct {
	bytes int
	hash  maphash.Hash
	cut   bool // the reader was too slow; the rest comes at the end
}

func newStream(s *Server, conn net.Conn, kind events, x *exchange, v *visit) *stream {
	return &stream{
		kind: kind, conn: conn, visit: v, keepAlive: s.StreamKeepAlive,
		more: make(chan struct{}, 1), code: string(api.BadRequest), // of a caller that is gone before the end
		counted: func(code string, n int) {
			s.metrics.answered(code, time.Since(x.start), n)
		},
	}
}

// push is the run's wire.Sink.
func (s *stream) push(which wire.Stream, text string) {
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.sent[index(which)]
	if t.cut = t.cut || s.pending.Len()+len(text) > maxPending; t.cut || s.closed {
		return
	}
	t.bytes += len(text)
	_, _ = t.hash.WriteString(text) // never fails
	s.tell(string(which), struct {
		Event wire.Stream `json:"event"`
		Text  string      `json:"text"`
	}{which, text})
	s.wake()
}

func index(which wire.Stream) int {
	if which == wire.Stderr {
		return 1
	}
	return 0
}

// begin says whether the stream is to be sent: not when the run failed before
// it had anything to tell, for then the failure is the answer.
func (s *stream) begin() bool {
	prelude := time.NewTimer(maxPrelude)
	defer prelude.Stop()
	select {
	case <-s.more:
		s.wake() // for the first Read
		return true
	case <-prelude.C:
		return true
	case <-s.visit.caller.done:
	case <-s.visit.caller.dropped:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = s.pending.Len() == 0 && (!s.visit.caller.landed() || s.visit.caller.answer.err != nil)
	return !s.closed
}

// wake leaves a token for Read, unless one is there.
func (s *stream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Read gives out what there is, and waits when there is nothing. A chunk is
// sent to the caller after each.
func (s *stream) Read(p []byte) (int, error) {
	silent := time.NewTimer(s.keepAlive)
	defer silent.Stop()
	for {
		// done is looked at before pending: what was pushed before the run's
		// end must be told before it.
		landed := s.visit.caller.landed()
		if n, err := s.take(p, landed); n > 0 || err != nil {
			// Each piece has its own time; fasthttp set one for the whole.
			_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			return n, err
		}
		select {
		case <-s.more:
		case <-s.visit.caller.done:
		case <-s.visit.caller.dropped:
			return 0, io.ErrClosedPipe
		case <-s.visit.caller.overdue:
			s.mu.Lock()
			s.end(answer{err: ended(s.visit.caller.ctx, context.Cause(s.visit.caller.ctx))})
			s.mu.Unlock()
		case <-silent.C:
			s.mu.Lock()
			if s.kind == sse {
				s.pending.WriteString(": keep-alive\n\n")
			}
			s.mu.Unlock()
			silent.Reset(s.keepAlive)
		}
	}
}

func (s *stream) take(p []byte, landed bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending.Len() == 0 && landed && !s.finished {
		s.end(s.visit.caller.answer)
	}
	if s.pending.Len() == 0 {
		if s.finished {
			return 0, io.EOF
		}
		return 0, nil
	}
	n, err := s.pending.Read(p)
	s.bytes += n
	return n, err
}

// end tells the answer less what was streamed, or the error. The lock is held.
func (s *stream) end(a answer) {
	s.finished = true
	if a.err != nil {
		e := sound(a.err)
		s.code = string(e.Code)
		s.tell("error", struct {
			Event string     `json:"event"`
			Error *api.Error `json:"error"`
		}{"error", e})
		return
	}
	s.code = "ok"
	r := *lists(a.result)
	end := struct {
		Event string `json:"event"`
		*wire.Result
		StdoutReplaces bool `json:"stdout_replaces,omitempty"`
		StderrReplaces bool `json:"stderr_replaces,omitempty"`
		StdoutStreamed bool `json:"stdout_streamed,omitempty"`
		StderrStreamed bool `json:"stderr_streamed,omitempty"`
	}{Event: "end", Result: &r}
	r.Stdout, end.StdoutReplaces = s.sent[0].rest(r.Stdout)
	r.Stderr, end.StderrReplaces = s.sent[1].rest(r.Stderr)
	// More is streamed of a long output than is kept of it, to its very end.
	end.StdoutStreamed = end.StdoutReplaces && r.StdoutTruncated && !s.sent[0].cut
	end.StderrStreamed = end.StderrReplaces && r.StderrTruncated && !s.sent[1].cut
	s.tell("end", end)
}

// rest is what of the kept output was not streamed. When what was streamed is
// not how the kept output begins, the rest is all of it, and replaces it.
func (t *told) rest(kept string) (rest string, replaces bool) {
	if len(kept) >= t.bytes && maphash.String(t.hash.Seed(), kept[:t.bytes]) == t.hash.Sum64() {
		return kept[t.bytes:], false
	}
	return kept, true
}

// tell writes one event. The lock is held.
func (s *stream) tell(name string, v any) {
	if s.kind == sse {
		fmt.Fprintf(&s.pending, "event: %s\ndata: ", name)
	}
	_ = writeJSON(&s.pending, v) // a buffer takes all, and v always encodes
	if s.kind == sse {
		s.pending.WriteByte('\n')
	}
}

// Close is called by fasthttp when the answer has left or cannot leave.
func (s *stream) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		s.visit.end(errGone) // without effect on a run that has ended
		s.counted(s.code, s.bytes)
	}
	return nil
}
