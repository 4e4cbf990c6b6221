package local

import (
	"bytes"
	"fmt"
)

// ImportError names a module to preload that cannot be imported. Cause is what
// Python says.
type ImportError struct{ Module, Cause string }

func (e *ImportError) Error() string { return fmt.Sprintf("cannot import %q: %s", e.Module, e.Cause) }

// unimportable reads an interpreter's word in place of ready; nil when it is
// another one.
func unimportable(said []byte) *ImportError {
	rest, ok := bytes.CutPrefix(said, []byte("M"))
	if !ok {
		return nil
	}
	module, cause, _ := bytes.Cut(rest, []byte{0})
	return &ImportError{Module: string(module), Cause: string(cause)}
}
