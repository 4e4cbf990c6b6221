package client

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Run executes one request; the connection serves nothing afterwards. An error
// is an *api.Error: its Executed is No only when no byte of the request went
// out, or when the runner itself says that it ran nothing. SandboxLost is what
// it is when the connection ended: why, the pod may know.
func (c *Conn) Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	c.exchanges.Lock()
	defer c.exchanges.Unlock()
	if !c.ran.CompareAndSwap(false, true) {
		return nil, api.Errorf(api.Internal, "the runner has served its one run")
	}
	defer c.hangUp()
	nonce := rand.Text()
	header := http.Header{protocol.NonceHeader: {nonce}}
	if sink == nil {
		header.Set(protocol.StreamHeader, "none")
	}
	answer, failure := c.exchange(ctx, protocol.RunPath, header, req)
	if failure != nil {
		return nil, failure
	}
	defer answer.release()
	limit := c.maxAnswer
	if req.Call != nil {
		limit *= 3 // what a tool may yield in all is bounded by the runner, at twice as much
	}
	res, err := readRun(answer.Body, limit, nonce, heard(req, sink))
	if err == nil {
		return res, nil
	}
	if failure, ok := errors.AsType[*api.Error](err); ok {
		return nil, failure
	}
	if ctx.Err() != nil {
		return nil, stopped(ctx).MaybeRan()
	}
	return nil, api.Errorf(api.SandboxLost, "cannot read the run's answer: %w", err).MaybeRan()
}

// heard is the sink with what a run of that kind may say meanwhile: a program
// writes, a tool call yields.
func heard(req *wire.Request, sink wire.Sink) wire.Sink {
	if sink == nil {
		return nil
	}
	return func(stream wire.Stream, text string) {
		if (stream == wire.Item) == (req.Call != nil) {
			sink(stream, text)
		}
	}
}

var (
	errCut   = errors.New("it ended before its last line")
	errNonce = errors.New("its last line does not carry the nonce of the request")
)

// readRun reads lines up to the last one.
func readRun(body io.Reader, limit int64, nonce string, sink wire.Sink) (*wire.Result, error) {
	lines := bufio.NewScanner(io.LimitReader(body, limit))
	lines.Buffer(nil, int(limit))
	for lines.Scan() {
		var line protocol.Line
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, err
		}
		if line.Result == nil && line.Error == nil {
			if sink != nil && (line.Stream == wire.Stdout || line.Stream == wire.Stderr || line.Stream == wire.Item) {
				sink(line.Stream, line.Text)
			}
			continue
		}
		if line.Nonce != nonce {
			return nil, errNonce
		}
		if line.Error != nil && line.Error.Status() == 0 {
			return nil, fmt.Errorf("its error has the code %.40q", line.Error.Code)
		}
		if line.Error != nil {
			return nil, line.Error
		}
		return line.Result, check(line.Result)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, errCut
}

// check refuses a result that no runner of ours would give.
func check(res *wire.Result) error {
	if !slices.Contains(wire.Outcomes, res.Outcome) {
		return fmt.Errorf("its outcome is %.40q", res.Outcome)
	}
	if res.ExitCode < 0 || res.ExitCode > 255 {
		return fmt.Errorf("its exit code is %d", res.ExitCode)
	}
	for _, f := range res.Files {
		if !filepath.IsLocal(f.Path) {
			return fmt.Errorf("a file of it has the path %.200q", f.Path)
		}
	}
	return nil
}
