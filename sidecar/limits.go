package sidecar

import (
	"errors"
	"fmt"

	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// Limits is every limit in force, for GET /limits. The first two groups are
// enforced here; Sandbox is what the pool enforces, told to the caller.
type Limits struct {
	Request RequestLimits `json:"request"`
	Server  ServerLimits  `json:"server"`
	Sandbox SandboxLimits `json:"sandbox"`
	// Tools is nil where no tool calls are served.
	Tools *ToolLimits `json:"tools,omitempty"`
}

// Seconds is a duration in seconds, the API's unit.
type Seconds = request.Seconds

// RequestLimits bounds one request. Every field must be positive.
type RequestLimits = request.Limits

// ServerLimits bounds all requests together. Every field must be positive.
type ServerLimits struct {
	// Wait is how long a run may wait for its turn and its sandbox, on top of
	// its timeout.
	Wait Seconds `json:"wait_seconds"`
	// Requests is how many runs may be in flight; one more is refused as busy.
	Requests int `json:"requests_in_flight"`
	// BodiesBytes bounds the bodies of the runs in flight together.
	BodiesBytes int64 `json:"bodies_in_flight_bytes"`
	Connections int   `json:"connections"`
	// Read bounds the arrival of one request, headers and body.
	Read Seconds `json:"read_seconds"`
	Idle Seconds `json:"idle_seconds"`

	IdempotencyKeys  int     `json:"idempotency_keys"`
	IdempotencyBytes int64   `json:"idempotency_bytes"`
	IdempotencyTTL   Seconds `json:"idempotency_seconds"`
}

// SandboxLimits tells a caller what a program finds. Zero fields are unknown.
type SandboxLimits struct {
	Isolation     string   `json:"isolation"` // "namespaces", "none", …
	MemoryBy      string   `json:"memory_by"` // what holds the memory limit: "cgroup", "watchdog", …
	CPUBy         string   `json:"cpu_by"`    // what gives it its share of the processors: "cgroup", or "niceness" for each process
	PythonVersion string   `json:"python_version"`
	Preload       []string `json:"preload"` // modules already imported
	Network       string   `json:"network"` // "dns" (lookups only), "none", or "host" (the machine's own)
	// NetworkProof is "off" where nobody looks whether a sandbox's network is
	// closed, "on" where each shows it, and empty where it has none.
	NetworkProof string `json:"network_proof,omitempty"`
	MemoryBytes  int64  `json:"memory_bytes"`
	DiskBytes    int64  `json:"disk_bytes"`
	DiskFiles    int64  `json:"disk_files"`
	Processes    int    `json:"processes"`
	OpenFiles    int    `json:"open_files"`
	OutputBytes  int    `json:"output_bytes"` // kept of stdout, and again of stderr
	FilesBytes   int64  `json:"files_bytes"`  // content of the files in an answer
	AnswerFiles  int    `json:"answer_files"` // how many files an answer holds
	DNSLookups   int    `json:"dns_lookups"`  // of one run
	Warm         int    `json:"warm"`         // sandboxes that are kept ready, at least
	Sandboxes    int    `json:"sandboxes"`    // at once, warm and running
}

// ToolLimits bounds tool calls, which another part of the process serves.
type ToolLimits struct {
	Mode        string  `json:"mode"` // "enforce", "audit" or "off"
	Calls       int     `json:"calls_in_flight"`
	ArgsBytes   int     `json:"args_bytes"`
	ResultBytes int     `json:"result_bytes"`
	Depth       int     `json:"depth"` // of arguments and of a result
	Nodes       int     `json:"nodes"` // likewise
	MaxTimeout  Seconds `json:"max_timeout_seconds"`
}

// DefaultLimits are the limits of design and documentation; the Sandbox group
// is left for the caller to fill.
func DefaultLimits() Limits {
	return Limits{
		Request: request.DefaultLimits(),
		Server: ServerLimits{
			Wait: 60, Requests: 256, BodiesBytes: 128 << 20, Connections: 1024,
			Read: 30, Idle: 60,
			IdempotencyKeys: 1024, IdempotencyBytes: 32 << 20, IdempotencyTTL: 600,
		},
		Sandbox: SandboxLimits{Network: "dns", Preload: []string{}},
	}
}

// validate names the first limit that cannot be.
func (l *Limits) validate() error {
	r, s := l.Request, l.Server
	for _, limit := range []struct {
		name  string
		value float64
	}{
		{"request.code_bytes", float64(r.CodeBytes)},
		{"request.body_bytes", float64(r.BodyBytes)},
		{"request.default_timeout_seconds", float64(r.DefaultTimeout)},
		{"request.max_timeout_seconds", float64(r.MaxTimeout)},
		{"request.args", float64(r.Args)},
		{"request.env", float64(r.Env)},
		{"request.files", float64(r.Files)},
		{"request.path_bytes", float64(r.PathBytes)},
		{"server.wait_seconds", float64(s.Wait)},
		{"server.requests_in_flight", float64(s.Requests)},
		{"server.bodies_in_flight_bytes", float64(s.BodiesBytes)},
		{"server.connections", float64(s.Connections)},
		{"server.read_seconds", float64(s.Read)},
		{"server.idle_seconds", float64(s.Idle)},
		{"server.idempotency_keys", float64(s.IdempotencyKeys)},
		{"server.idempotency_bytes", float64(s.IdempotencyBytes)},
		{"server.idempotency_seconds", float64(s.IdempotencyTTL)},
	} {
		if limit.value <= 0 {
			return fmt.Errorf("the limit %s must be more than 0, not %v", limit.name, limit.value)
		}
	}
	if r.DefaultTimeout > r.MaxTimeout {
		return fmt.Errorf("the default timeout (%v s) must not be over the longest one (%v s)", r.DefaultTimeout, r.MaxTimeout)
	}
	if s.BodiesBytes < int64(r.BodyBytes) {
		return errors.New("server.bodies_in_flight_bytes must not be under request.body_bytes: the largest request would never be let in")
	}
	return nil
}
