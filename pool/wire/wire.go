// Package wire defines what a run is given and what it answers. It is the only
// definition of a request and a result in the repository: the sidecar, the
// pool and the runner all speak these types, as JSON.
package wire

import (
	"encoding/json"
	"time"
)

// Request is one run: a Python program and what it is given, or a tool call.
type Request struct {
	// Code is the program's source, UTF-8.
	Code string `json:"code"`
	// Call is a tool call, for a sandbox that is a Copy, in place of Code: the
	// frame that the copy is sent, without its nonce.
	Call json.RawMessage `json:"call,omitempty"`
	// TimeoutSeconds bounds the program's wall time. Zero means the longest
	// that the limits allow.
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
	// Stdin is the text on standard input; nil means end of file at once.
	Stdin *string `json:"stdin,omitempty"`
	// Args become sys.argv[1:].
	Args []string `json:"args,omitempty"`
	// Env holds extra environment variables.
	Env map[string]string `json:"env,omitempty"`
	// Files are laid in the working directory before the program starts.
	Files []File `json:"files,omitempty"`
}

// Timeout is TimeoutSeconds as a duration.
func (r *Request) Timeout() time.Duration {
	return time.Duration(r.TimeoutSeconds * float64(time.Second))
}

// File is one file given to a run or created by it. Path is relative to the
// working directory and never leaves it.
type File struct {
	Path string `json:"path"`
	// Size is the content's length in bytes, before encoding. Answers only.
	Size int64 `json:"size"`
	// MediaType is a guess from the name, then from the content. Answers only.
	MediaType string `json:"media_type,omitempty"`
	Content   string `json:"content"`
	// Encoding of Content: "utf-8" (also when empty) or "base64".
	Encoding string `json:"encoding,omitempty"`
}

// OmittedFile names a file that was created but is not in the answer, and why.
type OmittedFile struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Reason string `json:"reason"`
}

// Outcome is how a run ended. The set is closed.
type Outcome string

// The outcomes. All but the last two are the doing of the program.
const (
	OK           Outcome = "ok"            // exit code 0
	Failed       Outcome = "error"         // another exit code, or an uncaught exception
	Timeout      Outcome = "timeout"       // ended by us at its deadline
	OutOfMemory  Outcome = "out_of_memory" // ended by the memory limit
	DiskFull     Outcome = "disk_full"     // ended by a full disk
	ProcessLimit Outcome = "process_limit" // ended by the limit on processes and threads
	Killed       Outcome = "killed"        // ended by a signal
	Evicted      Outcome = "evicted"       // the node threw the sandbox out
	NodeLost     Outcome = "node_lost"     // the node went away
)

// Outcomes lists every Outcome, for metrics and for the API description.
var Outcomes = []Outcome{OK, Failed, Timeout, OutOfMemory, DiskFull, ProcessLimit, Killed, Evicted, NodeLost}

// Result is how a run ended and what it left. Text is always valid UTF-8.
type Result struct {
	RunID     string `json:"run_id"`
	SandboxID string `json:"sandbox_id"`

	Stdout          string `json:"stdout"`
	Stderr          string `json:"stderr"`
	StdoutBytes     int64  `json:"stdout_bytes"` // bytes written, kept or not
	StderrBytes     int64  `json:"stderr_bytes"`
	StdoutTruncated bool   `json:"stdout_truncated"`
	StderrTruncated bool   `json:"stderr_truncated"`

	// Value is the repr of the last statement when it is an expression that is
	// not None, else nil.
	Value *string `json:"result"`

	// Call is how a tool call ended, in the copy's own words: its last frame
	// without kind and nonce. Nil when the copy ended without a word.
	Call json.RawMessage `json:"call,omitempty"`

	// ExitCode is 0-255, or 128+signal.
	ExitCode int     `json:"exit_code"`
	Outcome  Outcome `json:"outcome"`
	// Reason says in one sentence how the run ended, and what to change.
	Reason string `json:"reason"`
	// Denied names what the sandbox refused the program, from the fixed set
	// of Denial, as far as the program's end shows it.
	Denied []Denial `json:"denied"`
	// EgressDenied are the hosts, HOST:PORT, that a copy with Egress asked for and
	// may not reach.
	EgressDenied []string `json:"egress_denied,omitempty"`

	Files        []File        `json:"files"`
	FilesOmitted []OmittedFile `json:"files_omitted"`

	DurationMS float64 `json:"duration_ms"`
	Timing     Timing  `json:"timing"`
	// Warm is false when the run waited for a cold start.
	Warm bool `json:"warm"`
	// Isolation is what stood around the program: "namespaces", "none", ….
	Isolation string `json:"isolation"`
}

// Denial is something a sandbox refuses by design.
type Denial string

// The denials.
const (
	DeniedNetwork    Denial = "network"    // anything but a DNS lookup
	DeniedFilesystem Denial = "filesystem" // writing outside the working directory and /tmp
	DeniedOperation  Denial = "operation"  // a system call or a right the sandbox lacks
	DeniedPackage    Denial = "package"    // importing a module that is not installed
)

// Denials lists every Denial.
var Denials = []Denial{DeniedNetwork, DeniedFilesystem, DeniedOperation, DeniedPackage}

// Timing says where a run's time went, in milliseconds.
type Timing struct {
	QueueMS float64 `json:"queue_ms"` // waiting for a turn
	ClaimMS float64 `json:"claim_ms"` // waiting for a sandbox, once it had its turn
	RunMS   float64 `json:"run_ms"`   // in the sandbox
}

// Stream names what a Sink is given: one of a program's two outputs, or the
// items of a tool call.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
	// Item is what a generator yields: one whole JSON text a time.
	Item Stream = "item"
)

// Sink receives a run's output while it is written, in order per stream, as
// valid UTF-8. It is called from one goroutine at a time and must not block
// for long; nil means that nobody listens. What a Sink was given stands in
// the Result as well, but for items.
type Sink func(Stream, string)
