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
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	maxAhead   = 16 // copies that wait to be told of
	aheadTries = 10 // an agent's pod may not be known at once
	aheadPause = time.Second
)

// Ahead tells the pool that a copy will be called soon. It returns at once: what
// comes of it the call will show. Keep must run.
func (c *Client) Ahead(program *wire.Copy) {
	select {
	case c.ahead <- program:
	default: // more than is worth it
	}
}

// keepAhead passes on what Ahead was told, one after the other, until ctx ends.
func (c *Client) keepAhead(ctx context.Context) {
	for {
		var program *wire.Copy
		select {
		case <-ctx.Done():
			return
		case program = <-c.ahead:
		}
		for try := range aheadTries {
			e, refused := errors.AsType[*api.Error](c.tellAhead(ctx, program))
			if !refused || !e.Retry || try+1 < aheadTries && !wait(ctx, aheadPause) {
				break
			}
		}
	}
}

// tellAhead tells the replica that a call would ask first. Errors are *api.Error.
func (c *Client) tellAhead(ctx context.Context, program *wire.Copy) error {
	ctx, cancel := context.WithTimeout(ctx, admitTimeout)
	defer cancel()
	unreached := func(err error) error { return api.Errorf(api.NoCapacity, "cannot tell the pool of a copy: %w", err) }
	addresses, err := c.replicas.order(ctx, time.Now())
	if err != nil {
		return unreached(err)
	}
	token, err := c.token.read()
	if err != nil {
		return unreached(err)
	}
	body, err := json.Marshal(api.CopyBody{Copy: program})
	if err != nil {
		return api.Errorf(api.BadRequest, "cannot encode a copy: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addresses[0]+api.CopiesPath, bytes.NewReader(body))
	if err != nil {
		return unreached(err)
	}
	req.Host = c.opts.Address
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return unreached(err)
	}
	defer res.Body.Close()
	answer := io.LimitReader(res.Body, maxFailure)
	if res.StatusCode != http.StatusOK {
		return refusal(res.StatusCode, answer)
	}
	if _, err := io.Copy(io.Discard, answer); err != nil { // to its end, or the connection is not kept
		return unreached(fmt.Errorf("its answer was cut off: %w", err))
	}
	return nil
}
