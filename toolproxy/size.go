package toolproxy

import (
	"errors"
	"fmt"
	"unsafe"
)

// errTooLarge marks a record that has more bytes than one may.
var errTooLarge = errors.New("too large")

func tooLarge(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errTooLarge}, args...)...)
}

// perEntry is about what a map holds for an entry beside its text.
const perEntry = 64

// size is about how many bytes a record has in memory.
func (r *bootRecord) size() int {
	n := int(unsafe.Sizeof(*r)) + length(r.ID, r.Python.Executable, r.Python.Prefix, r.Python.BasePrefix, r.Main.Kind, r.Main.Path, r.Main.Name,
		r.Container, r.Cwd, r.Argv0, r.Failure) + length(r.Python.Flags...) + length(r.SysPath...)
	for name, value := range r.Env.Values {
		n += perEntry + length(name, value)
	}
	for name, shape := range r.Env.Names {
		n += perEntry + len(name) + len(shape)
	}
	for _, f := range r.Frameworks {
		n += int(unsafe.Sizeof(f)) + length(f.Name, f.Version, f.State, f.Module, f.Detail)
	}
	for _, t := range r.Tools {
		n += int(unsafe.Sizeof(t)) + length(t.Tool, t.Framework, t.Module, t.Qualname, t.Decision, t.Reason, t.Message)
	}
	return n
}

func length(texts ...string) (n int) {
	for _, text := range texts {
		n += len(text)
	}
	return n
}
