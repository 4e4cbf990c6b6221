package api

import "github.com/code-sandbox/code-sandbox/pool/wire"

// The pool's service: its paths, and the headers it knows beside Authorization,
// Traceparent and X-Request-Id.
const (
	RunsPath   = "/v1/runs"   // POST a RunBody, get Lines or a Failure
	CopiesPath = "/v1/copies" // POST a CopyBody, get {} or a Failure
	LimitsPath = "/v1/limits" // GET ServiceLimits
	// DeadlineHeader says for how many milliseconds the client waits at most,
	// from the arrival of the request on.
	DeadlineHeader = "Code-Sandbox-Deadline-Ms"
)

// Draining is the Reason of a NoCapacity by a pool that stops: another replica
// can be asked at once.
const Draining = "draining"

// RunBody is the body of a run. A client sends it with "Expect: 100-continue",
// so that nothing is sent to a pool that is gone or lets nobody in.
type RunBody struct {
	Request *wire.Request `json:"request"`
	// Copy makes the sandbox a copy of the caller's own program, for the tool
	// call that Request is. The image is never the client's to name.
	Copy *wire.Copy `json:"copy,omitempty"`
	// Stream asks for the output while it is written, ahead of the result.
	Stream bool `json:"stream,omitempty"`
}

// CopyBody asks for a copy of the caller's own program to be made ahead of a call.
type CopyBody struct {
	Copy *wire.Copy `json:"copy"`
}

// Line is one line of the answer to a run: a piece of output, or at the end the
// result or an error.
type Line struct {
	Stream wire.Stream  `json:"stream,omitempty"`
	Text   string       `json:"text,omitempty"`
	Result *wire.Result `json:"result,omitempty"`
	Error  *Error       `json:"error,omitempty"`
}

// Failure is the answer to a request that failed before the first Line, with
// the status of the error's code.
type Failure struct {
	Error *Error `json:"error"`
}

// ServiceLimits is what the pool tells its clients of itself.
type ServiceLimits struct {
	WaitSeconds float64 `json:"wait_seconds"` // for a sandbox, at most
	BodyBytes   int64   `json:"body_bytes"`   // of a RunBody
	// The rest is what a program finds, as in the sidecar's own limits.
	Isolation     string      `json:"isolation"`
	MemoryBy      string      `json:"memory_by"`
	CPUBy         string      `json:"cpu_by,omitempty"`
	PythonVersion string      `json:"python_version,omitempty"`
	Preload       []string    `json:"preload"`
	Network       string      `json:"network"`                 // "dns" or "none"
	NetworkProof  string      `json:"network_proof,omitempty"` // "on", or "off" when nobody looks whether it is closed
	Limits        wire.Limits `json:"limits"`
}
