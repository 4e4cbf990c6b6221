package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	// maxPending is how much output may wait for a slow client; a program that
	// writes more is slowed down.
	maxPending = 1 << 20
	// writeTimeout is for one piece of the answer.
	writeTimeout = 10 * time.Second
)

// stream writes the lines of an answer. What a program writes while an earlier
// piece is on its way goes out as one piece.
type stream struct {
	w    io.Writer
	conn *http.ResponseController
	head http.Header
	gone func() // called once when the client does not take it

	mu      sync.Mutex
	change  sync.Cond
	pending bytes.Buffer
	begun   bool
	ended   bool
	failed  bool
	done    chan struct{} // closed when the writing goroutine has ended
}

func newStream(w http.ResponseWriter, gone func()) *stream {
	s := &stream{w: w, conn: http.NewResponseController(w), head: w.Header(), gone: gone, done: make(chan struct{})}
	s.change.L = &s.mu
	return s
}

// encoder does not escape for HTML, which nothing here is.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// push is a wire.Sink.
func (s *stream) push(to wire.Stream, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.pending.Len() > maxPending && !s.failed && !s.ended {
		s.change.Wait()
	}
	if s.failed || s.ended {
		return
	}
	_ = encoder(&s.pending).Encode(api.Line{Stream: to, Text: text}) // a buffer takes all
	if !s.begun {
		s.begun = true
		s.head.Set("Content-Type", "application/x-ndjson")
		go s.write()
	}
	s.change.Broadcast()
}

// write sends what is pending until close; close waits for it.
func (s *stream) write() {
	defer close(s.done)
	var piece bytes.Buffer
	for {
		s.mu.Lock()
		for s.pending.Len() == 0 && !s.ended {
			s.change.Wait()
		}
		if s.pending.Len() == 0 || s.failed {
			s.mu.Unlock()
			return
		}
		piece, s.pending = s.pending, piece
		s.change.Broadcast()
		s.mu.Unlock()
		if err := s.send(piece.Bytes()); err != nil {
			s.mu.Lock()
			s.failed = true
			s.change.Broadcast()
			s.mu.Unlock()
			s.gone()
			return
		}
		piece.Reset()
	}
}

func (s *stream) send(piece []byte) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // a writer in memory has none
	if _, err := s.w.Write(piece); err != nil {
		return err
	}
	return s.conn.Flush()
}

// close ends the output and says whether there was any. What is pushed later is
// dropped.
func (s *stream) close() (begun bool) {
	s.mu.Lock()
	s.ended = true
	s.change.Broadcast()
	begun = s.begun
	s.mu.Unlock()
	if begun {
		<-s.done
	}
	return begun
}

// last writes the last line, after close. A client that is gone misses it.
func (s *stream) last(line api.Line) {
	if s.failed {
		return
	}
	s.head.Set("Content-Type", "application/x-ndjson")
	var b bytes.Buffer
	_ = encoder(&b).Encode(line) // strings and numbers always encode
	if s.send(b.Bytes()) == nil {
		_ = s.conn.SetWriteDeadline(time.Time{}) // the connection is used again
	}
}
