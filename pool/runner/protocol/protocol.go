// Package protocol has the words that the pool and the runner of a pod share.
// They speak HTTP/1.1 over TLS, on one connection, and one more for each that a
// copy's program makes to its proxy.
package protocol

import (
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// The runner's paths. All take POST, JSON and a bearer secret.
const (
	FreshPath   = "/v1/fresh"   // wire.Proof in, wire.Fresh out
	PreparePath = "/v1/prepare" // wire.Copy in, wire.Covers out, none when it is ready; once, by whom was told that it is fresh
	RunPath     = "/v1/run"     // wire.Request in, lines of JSON out, each a Line
	// EgressPath takes nothing in. It is answered with 101 when the program of a
	// copy with Egress has connected to its proxy; from there on that connection's
	// bytes go both ways.
	EgressPath = "/v1/egress"
)

// Headers of a run.
const (
	// NonceHeader is echoed in the last line.
	NonceHeader = "X-Nonce"
	// StreamHeader with the value "none" asks for the last line alone.
	StreamHeader = "X-Stream"
)

// Tunnel is the protocol that the answer 101 changes to.
const Tunnel = "code-sandbox-egress"

// MaxNonce bounds a nonce, in bytes.
const MaxNonce = 128

// Line is one line of the answer to a run: a piece of output, or the last line,
// which has the nonce and either a result or an error.
type Line struct {
	Stream wire.Stream  `json:"stream,omitempty"`
	Text   string       `json:"text,omitempty"`
	Nonce  string       `json:"nonce,omitempty"`
	Result *wire.Result `json:"result,omitempty"`
	Error  *api.Error   `json:"error,omitempty"`
}

// Refusal is the body of every answer that is not 200.
type Refusal struct {
	Error *api.Error `json:"error"`
}
