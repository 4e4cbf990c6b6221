package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// exchange sends one run to one replica and reads its answer.
func (c *Client) exchange(ctx context.Context, address, token string, body []byte, sink wire.Sink) (*wire.Result, *failure) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := newProgram(body)
	limit := time.AfterFunc(admitTimeout, func() {
		if p.withdraw() {
			cancel(errLate)
		}
	})
	defer limit.Stop()
	req, err := c.request(ctx, address, token, p, int64(len(body)))
	if err != nil {
		return nil, &failure{err: api.Errorf(api.Internal, "cannot make a request to the pool: %w", err)}
	}
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, lost(ctx, p, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, c.refused(res, p)
	}
	result, failed := c.answer(ctx, res.Body, p, sink)
	if failed == nil {
		c.reached.Store(true)
		c.replicas.good(address)
	}
	return result, failed
}

// lost tells a replica that was late from a caller that has left: both ended
// the context.
func lost(ctx context.Context, p *program, err error) *failure {
	if errors.Is(context.Cause(ctx), errLate) {
		return broken(context.Background(), p, errLate)
	}
	return broken(ctx, p, err)
}

func (c *Client) request(ctx context.Context, address, token string, p *program, size int64) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+api.RunsPath, p)
	if err != nil {
		return nil, err
	}
	req.Host, req.ContentLength = c.opts.Address, size
	h := req.Header
	h.Set("Authorization", "Bearer "+token)
	h.Set("Content-Type", "application/json")
	h.Set("Expect", "100-continue")
	if t := api.TraceOf(ctx); t.RequestID != "" || t.Traceparent != "" {
		h.Set("X-Request-Id", t.RequestID)
		h.Set("Traceparent", t.Traceparent)
	}
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		h.Set(api.DeadlineHeader, strconv.FormatInt(max(1, (left-margin(left)).Milliseconds()), 10))
	}
	return req, nil
}

// refused reads the error of a replica. When it stops, or nothing was sent and
// what answers is not a pool, another may be asked.
func (c *Client) refused(res *http.Response, p *program) *failure {
	e := refusal(res.StatusCode, io.LimitReader(res.Body, maxFailure))
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds < 3600 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	if p.withdraw() {
		e.Executed = api.No
	}
	return &failure{err: e, again: e.Executed == api.No && e.Code == api.NoCapacity && e.Reason == api.Draining}
}

// answer reads the lines until the last.
func (c *Client) answer(ctx context.Context, body io.Reader, p *program, sink wire.Sink) (*wire.Result, *failure) {
	limited := &io.LimitedReader{R: body, N: c.opts.AnswerBytes + 1}
	dec := json.NewDecoder(bufio.NewReaderSize(limited, 32<<10))
	for {
		var line api.Line
		if err := dec.Decode(&line); err != nil {
			if limited.N <= 0 {
				return nil, &failure{err: api.Errorf(api.Internal, "the answer is longer than %d bytes, the limit", c.opts.AnswerBytes).MaybeRan()}
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, broken(ctx, p, err)
		}
		switch {
		case line.Error != nil:
			drain(dec)
			return nil, &failure{err: sound(line.Error)}
		case line.Result != nil:
			drain(dec)
			return line.Result, nil
		case line.Stream == wire.Stdout || line.Stream == wire.Stderr || line.Stream == wire.Item:
			if sink != nil {
				sink(line.Stream, line.Text)
			}
		default:
			return nil, broken(ctx, p, fmt.Errorf("it sent a line that is neither output nor an end"))
		}
	}
}

// drain reads to the answer's end, which is there, so that the connection is
// kept.
func drain(dec *json.Decoder) { _, _ = dec.Token() }

// program is the body of a run. It is held until the pool has let the run in;
// from the first byte read on it counts as sent.
type program struct {
	mu    sync.Mutex
	state state
	body  *bytes.Reader
}

type state int

const (
	held state = iota
	sent
	withdrawn
)

func newProgram(body []byte) *program { return &program{body: bytes.NewReader(body)} }

func (p *program) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == withdrawn {
		return 0, errLate
	}
	p.state = sent
	return p.body.Read(b)
}

// Close is called by the transport when it has read enough, or gives up.
func (p *program) Close() error { return nil }

// withdraw makes sure that nothing is sent any more, a transport may read on
// after it has returned; it says whether nothing was sent before.
func (p *program) withdraw() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == sent {
		return false
	}
	p.state = withdrawn
	return true
}
