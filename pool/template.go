package pool

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"strings"

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
	// Owner is the only one whom the sandbox may serve: a copy is made of its
	// caller's own pod. Zero is everybody.
	Owner Caller `json:"owner,omitzero"`
	// Copy makes the sandbox a copy of an agent's program, ready for one call of
	// one of its functions. Nil is an interpreter for any program.
	Copy *wire.Copy `json:"-"`
	// Size is about what Copy takes in memory for as long as the template is kept,
	// in bytes. It is no part of the key, which is of all that has a size.
	Size int `json:"-"`
	// Warm is how many are kept warm at least; zero means Options.Target. It is
	// no part of the key: it does not change what a sandbox is.
	Warm int `json:"-"`
}

// Key is a SHA-256 over all of the template, in 52 letters and digits: it fits a
// label of a pod, and nobody finds two templates of one key.
func (t Template) Key() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic("BUG: a template is not JSON: " + err.Error())
	}
	if t.Copy != nil {
		b = append(b, t.Copy.Key()...)
	}
	sum := sha256.Sum256(b)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}
