package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// maxFailure bounds the answers that are not those of a run.
const maxFailure = 1 << 20

// ask gets the limits of one replica.
func (c *Client) ask(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+api.LimitsPath, nil)
	if err != nil {
		return fmt.Errorf("cannot ask the pool: %w", err)
	}
	req.Host = c.opts.Address
	token, err := c.token.read()
	if err != nil {
		return fmt.Errorf("cannot read the token for the pool: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("cannot reach the pool: %w", err)
	}
	defer res.Body.Close()
	body := io.LimitReader(res.Body, maxFailure)
	if res.StatusCode != http.StatusOK {
		return refusal(res.StatusCode, body)
	}
	told := &api.ServiceLimits{}
	if err := json.NewDecoder(body).Decode(told); err != nil {
		return fmt.Errorf("cannot understand the pool's limits: %w", err)
	}
	_, _ = io.Copy(io.Discard, body) // to its end, or the connection is not kept
	c.told.Store(told)
	return nil
}

// refusal is the error in an answer that is not 200. One that cannot be read
// is ours; of what ran it says nothing.
func refusal(status int, body io.Reader) *api.Error {
	var f api.Failure
	if err := json.NewDecoder(body).Decode(&f); err != nil || f.Error == nil || f.Error.Status() != status {
		return api.Errorf(api.Internal, "the pool answered with status %d and no error that can be understood", status).MaybeRan()
	}
	return sound(f.Error)
}

// sound is the error as the table has it, whatever a pool says of it.
func sound(e *api.Error) *api.Error {
	c := *e
	if c.Status() == 0 {
		c.Code = api.Internal
	}
	if c.Executed != api.No {
		c.Executed = api.Maybe
	}
	return &c
}
