package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Audit keeps a record of every run, as JSON lines.
type Audit struct {
	mu sync.Mutex
	to io.Writer
}

// NewAudit writes to w, each record with one call.
func NewAudit(w io.Writer) *Audit { return &Audit{to: w} }

// record is who ran what and how it ended: no code, no output, no token.
type record struct {
	Time       time.Time    `json:"time"` // of the request
	RequestID  string       `json:"request_id"`
	RunID      string       `json:"run_id,omitempty"`
	SandboxID  string       `json:"sandbox_id,omitempty"`
	Namespace  string       `json:"namespace"`
	Caller     string       `json:"caller"`
	Image      string       `json:"image"`
	CodeSHA256 string       `json:"code_sha256"`
	Outcome    wire.Outcome `json:"outcome,omitempty"`
	ExitCode   *int         `json:"exit_code,omitempty"`
	Error      api.Code     `json:"error,omitempty"`
	Executed   api.Executed `json:"executed,omitempty"`

	RequestBytes int64 `json:"request_bytes"`
	StdoutBytes  int64 `json:"stdout_bytes"`
	StderrBytes  int64 `json:"stderr_bytes"`
	Files        int   `json:"files"`

	Warm    bool    `json:"warm"`
	QueueMS float64 `json:"queue_ms"`
	ClaimMS float64 `json:"claim_ms"`
	RunMS   float64 `json:"run_ms"`
	TotalMS float64 `json:"total_ms"`
}

func (v *visit) audit() record {
	ran := []byte(v.body.Request.Code)
	if v.body.Copy != nil {
		ran = v.body.Copy.Target // which function of the image
	}
	sum := sha256.Sum256(ran)
	r := record{
		Time: v.arrived.UTC(), RequestID: v.id, Namespace: v.caller.Tenant, Caller: v.caller.Name,
		Image: v.template.Image, CodeSHA256: hex.EncodeToString(sum[:]), RequestBytes: v.size,
		TotalMS: float64(time.Since(v.arrived)) / float64(time.Millisecond),
	}
	if v.err != nil {
		r.Error, r.Executed = v.err.Code, sound(v.err).Executed
		return r
	}
	if res := v.result; res != nil {
		r.RunID, r.SandboxID, r.Outcome, r.ExitCode = res.RunID, res.SandboxID, res.Outcome, &res.ExitCode
		r.StdoutBytes, r.StderrBytes, r.Files, r.Warm = res.StdoutBytes, res.StderrBytes, len(res.Files), res.Warm
		r.QueueMS, r.ClaimMS, r.RunMS = res.Timing.QueueMS, res.Timing.ClaimMS, res.Timing.RunMS
	}
	return r
}

func (a *Audit) write(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("cannot encode the record: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.to.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("cannot write the record: %w", err)
	}
	return nil
}
