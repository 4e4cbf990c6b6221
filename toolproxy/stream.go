package toolproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// maxPending is how many items may wait for a slow reader; beyond it the tool
// waits.
const maxPending = 16

// end is how a streamed call ended.
type end struct {
	document []byte
	err      *api.Error
}

// stream runs a call whose items are sent as they come. An error before the
// first item is an ordinary answer.
func (p *Proxy) stream(ctx context.Context, rc *fasthttp.RequestCtx, c *prepared) (func(*bufio.Writer), *api.Error) {
	items, ended, closed := make(chan string, maxPending), make(chan end, 1), make(chan struct{})
	go func() {
		e := p.guarded(ctx, c, func(stream wire.Stream, text string) {
			if stream != wire.Item {
				return
			}
			select {
			case items <- text:
			case <-ctx.Done():
			case <-closed:
			}
		})
		p.inFlight.Add(-1)
		ended <- e
	}()
	write := func(first *string, last *end) func(*bufio.Writer) {
		rc.SetContentType("application/x-ndjson")
		return func(w *bufio.Writer) {
			defer close(closed)
			send(ctx, w, first, last, items, ended)
		}
	}
	select {
	case text := <-items:
		return write(&text, nil), nil
	case e := <-ended:
		if e.err != nil && len(items) == 0 {
			return nil, e.err
		}
		return write(nil, &e), nil
	}
}

// guarded runs a call in a goroutine of its own, where a panic would end the
// process.
func (p *Proxy) guarded(ctx context.Context, c *prepared, sink wire.Sink) (e end) {
	defer func() {
		if broken := recover(); broken != nil {
			p.log.Error("panic in a tool call", "panic", fmt.Sprint(broken), "stack", string(debug.Stack()))
			e = end{err: api.Errorf(api.Internal, "the tool proxy failed on this call").MaybeRan()}
		}
	}()
	document, err := p.run(ctx, c, sink)
	return end{document, err}
}

var errSlow = errors.New("the caller reads no more")

// send writes the lines of a stream.
func send(ctx context.Context, w *bufio.Writer, first *string, last *end, items <-chan string, ended <-chan end) {
	if first != nil && line(w, itemLine(*first)) != nil {
		return
	}
	for last == nil {
		select {
		case text := <-items:
			if line(w, itemLine(text)) != nil {
				return
			}
		case e := <-ended:
			last = &e
		case <-ctx.Done():
			return
		}
	}
	for len(items) > 0 { // sent before the end, and read after it
		if line(w, itemLine(<-items)) != nil {
			return
		}
	}
	_ = line(w, last.line()) // nobody is left to be told
}

func itemLine(text string) []byte { return []byte(`{"item":` + text + "}\n") }

func (e *end) line() []byte {
	if e.err == nil {
		return e.document
	}
	b, err := json.Marshal(map[string]*api.Error{"error": e.err})
	if err != nil {
		panic("BUG: an error is not JSON: " + err.Error())
	}
	return append(b, '\n')
}

func line(w *bufio.Writer, b []byte) error {
	if _, err := w.Write(b); err != nil {
		return errSlow
	}
	return w.Flush()
}
