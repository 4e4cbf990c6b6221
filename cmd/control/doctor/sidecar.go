package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// tryTimeout bounds one program, in seconds.
const tryTimeout = 30

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 20

// Sidecar is a Service at its URL, the one that agents have on localhost.
type Sidecar struct{ URL string }

// Limits implements Service.
func (s Sidecar) Limits(ctx context.Context) (Limits, error) {
	var told struct{ Sandbox Limits }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/limits", nil)
	if err != nil {
		return Limits{}, fmt.Errorf("cannot ask %q: %w", s.URL, err)
	}
	err = exchange(req, &told)
	return told.Sandbox, err
}

// Run implements Service.
func (s Sidecar) Run(ctx context.Context, code string, args []string) (*wire.Result, error) {
	body, err := json.Marshal(wire.Request{Code: code, Args: args, TimeoutSeconds: tryTimeout})
	if err != nil {
		return nil, fmt.Errorf("cannot encode a program: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/run_python", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("cannot ask %q: %w", s.URL, err)
	}
	req.Header.Set("Content-Type", "application/json")
	res := &wire.Result{}
	return res, exchange(req, res)
}

// exchange sends a request, and reads the answer or the service's own sentence.
func exchange(req *http.Request, to any) error {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("cannot reach the sidecar: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("cannot read the sidecar's answer: %w", err)
	}
	var f api.Failure
	if res.StatusCode != http.StatusOK {
		if json.Unmarshal(raw, &f) == nil && f.Error != nil {
			return fmt.Errorf("%s: %s", f.Error.Code, f.Error.Message)
		}
		return fmt.Errorf("what answers at %s is no sidecar: %s", req.URL, res.Status)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("cannot understand the sidecar: %w", err)
	}
	return nil
}
