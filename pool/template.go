package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Template is what a sandbox is made from. Two equal templates make
// interchangeable sandboxes; Key tells them apart.
type Template struct {
	// Image names the software inside: a digest on a cluster, empty on one
	// machine, where the driver's own interpreter is the image.
	Image string `json:"image,omitempty"`
	// Preload names Python modules imported before the sandbox is ready.
	Preload []string    `json:"preload,omitempty"`
	Limits  wire.Limits `json:"limits"`
	// DNS is "relay" (lookups are answered) or "none".
	DNS string `json:"dns"`
	// Copy makes the sandbox a copy of an agent's program, ready for one call of
	// one of its functions. Nil is an interpreter for any program.
	Copy *wire.Copy `json:"-"`
	// Warm is how many are kept warm at least; zero means Options.Target. It is
	// no part of the key: it does not change what a sandbox is.
	Warm int `json:"-"`
}

// Key is a hash over all of the template.
func (t Template) Key() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic("BUG: a template is not JSON: " + err.Error())
	}
	if t.Copy != nil {
		b = append(b, t.Copy.Key()...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
