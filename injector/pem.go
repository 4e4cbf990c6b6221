package injector

import (
	"bytes"
	"encoding/pem"
	"maps"
)

// same says whether two lists, in PEM, have the same certificates, in whatever
// order, and nothing else.
func same(a, b string) bool {
	ours, fine := certificates(a)
	theirs, ok := certificates(b)
	return fine && ok && maps.Equal(ours, theirs)
}

// within says whether a list of certificates, in PEM, has only such as are in
// the other, and at least one. While an authority is replaced not every replica
// knows the next one yet.
func within(have, all string) bool {
	some, ok := certificates(have)
	known, _ := certificates(all)
	for c := range some {
		if !known[c] {
			return false
		}
	}
	return ok && len(some) > 0
}

// certificates reads PEM. It says no when there is anything else.
func certificates(text string) (found map[string]bool, ok bool) {
	found = map[string]bool{}
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return found, len(bytes.TrimSpace(rest)) == 0
		}
		if block.Type != "CERTIFICATE" {
			return found, false
		}
		found[string(block.Bytes)] = true
	}
}
