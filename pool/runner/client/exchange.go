package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Fresh asks the runner to show that it is fresh: it has run nothing, its
// interpreter waits, and the proof was given. An error is an *api.Error.
func (c *Conn) Fresh(ctx context.Context, p wire.Proof) (wire.Fresh, error) {
	c.exchanges.Lock()
	defer c.exchanges.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.WithinMS)*time.Millisecond+freshMargin)
	defer cancel()
	answer, failure := c.exchange(ctx, protocol.FreshPath, nil, p)
	if failure != nil {
		return wire.Fresh{}, failure
	}
	defer answer.release()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxFresh+1))
	var fresh wire.Fresh
	if err == nil && len(body) > maxFresh {
		err = fmt.Errorf("it has more than %d bytes", maxFresh)
	}
	if err == nil {
		err = json.Unmarshal(body, &fresh)
	}
	if err != nil {
		c.hangUp()
		return wire.Fresh{}, api.Errorf(api.SandboxLost, "cannot read whether the runner is fresh: %w", err)
	}
	c.watch()
	return fresh, nil
}

// Prepare has the runner of a copy import the agent's program. It is called once,
// after Fresh. An error is an *api.Error, and then the connection serves nothing
// more; no more does it where the answer names places that the pod must cover, of
// which nothing was imported.
func (c *Conn) Prepare(ctx context.Context, program *wire.Copy) (covers wire.Covers, _ error) {
	c.exchanges.Lock()
	defer c.exchanges.Unlock()
	ctx, cancel := context.WithTimeout(ctx, prepareBound)
	defer cancel()
	answer, failure := c.exchange(ctx, protocol.PreparePath, nil, program)
	if failure != nil {
		return covers, failure
	}
	defer answer.release()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxCovers+1))
	if err == nil && len(body) > maxCovers {
		err = fmt.Errorf("it has more than %d bytes", maxCovers)
	}
	if err == nil {
		err = json.Unmarshal(body, &covers)
	}
	if err != nil {
		c.hangUp()
		return wire.Covers{}, api.Errorf(api.SandboxLost, "cannot read whether the copy is ready: %w", err)
	}
	c.watch()
	return covers, nil
}

// answer is the runner's, to be read to its end within ctx. Its body is never
// closed: that would read an endless one to its end. The connection is.
type answer struct {
	*http.Response
	release func() bool // lets go of the context
}

// exchange sends one request and returns its answer if it is a good one. The
// connection is closed when ctx ends before the answer's own end.
func (c *Conn) exchange(ctx context.Context, path string, header http.Header, body any) (*answer, *api.Error) {
	if c.isBroken() {
		return nil, lost(errors.New("while it was idle"))
	}
	if ctx.Err() != nil {
		return nil, stopped(ctx)
	}
	request, err := c.write(path, header, body)
	if err != nil {
		return nil, api.Errorf(api.BadRequest, "cannot write the request: %w", err)
	}
	release := context.AfterFunc(ctx, func() { c.hangUp() })
	res, failure := c.send(path, request) //nolint:bodyclose // see answer
	if failure != nil {
		release()
		if ctx.Err() != nil && failure.Code == api.SandboxLost {
			executed := failure.Executed
			failure = stopped(ctx)
			failure.Executed = executed
		}
		return nil, failure
	}
	return &answer{Response: res, release: release}, nil
}

// send writes the request and reads the head of its answer.
func (c *Conn) send(path string, request []byte) (*http.Response, *api.Error) {
	before := c.counted.written.Load()
	err := c.conn.SetWriteDeadline(time.Now().Add(writeBound))
	if err == nil {
		_, err = c.conn.Write(request)
	}
	if err == nil {
		err = <-c.next
	}
	var res *http.Response
	if err == nil {
		res, err = http.ReadResponse(c.reader, nil)
	}
	if err != nil {
		c.hangUp()
		failure := lost(err)
		if c.counted.written.Load() != before && path == protocol.RunPath {
			failure = failure.MaybeRan()
		}
		return nil, failure
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer c.hangUp()
	return nil, refusal(res, path)
}

// refusal is the error of an answer that is not 200.
func refusal(res *http.Response, path string) *api.Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	var told protocol.Refusal
	if err := json.Unmarshal(body, &told); err == nil && told.Error != nil && told.Error.Status() != 0 {
		return told.Error
	}
	err := api.Errorf(api.SandboxLost, "the runner answered %d, and not in our words", res.StatusCode)
	if path == protocol.RunPath {
		err = err.MaybeRan()
	}
	return err
}

// write makes the bytes of a request.
func (c *Conn) write(path string, header http.Header, body any) ([]byte, error) {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false) // it makes six bytes of one
	if err := encoder.Encode(body); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: runner\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n",
		path, c.secret, content.Len())
	if err := header.Write(&b); err != nil {
		return nil, err
	}
	b.WriteString("\r\n")
	b.Write(content.Bytes())
	return b.Bytes(), nil
}

// stopped is the error of a caller that went away or ran out of time.
func stopped(ctx context.Context) *api.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return api.Errorf(api.Timeout, "the runner did not answer in time: %w", context.Cause(ctx))
	}
	return api.Errorf(api.SandboxLost, "the caller of the run went away: %w", context.Cause(ctx))
}
