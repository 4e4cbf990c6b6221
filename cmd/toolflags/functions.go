package toolflags

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

// byHand is the framework under which the hook lists functions of hand-written
// dispatch.
const byHand = "tool-functions"

// functions are MODULE:GLOB, separated by commas.
type functions struct{ flags.List }

// Set implements flag.Value.
func (f *functions) Set(text string) error {
	var words flags.List
	if err := words.Set(text); err != nil {
		return err
	}
	for _, word := range words {
		module, glob, ok := strings.Cut(word, ":")
		if !ok || module == "" || glob == "" || strings.ContainsAny(module, "*?[ /") || !isGlob(glob) {
			return fmt.Errorf("%q is not like MODULE:GLOB: the functions of a module tools are tools:*, one of them is tools:fetch", word)
		}
	}
	f.List = words
	return nil
}

func isGlob(text string) bool {
	_, err := path.Match(text, "")
	return err == nil
}

// ByHand says whether functions of hand-written dispatch are named.
func (o *Options) ByHand() bool { return len(o.functions.List) > 0 }

// Unmatched are the patterns of --tool-functions that no tool comes from. A
// module can hold a function under another name than its own: where a tool is
// explained by no pattern, all of its module are taken to have matched.
func (o *Options) Unmatched(tools []toolproxy.Tool) (left []string) {
	for _, word := range o.functions.List {
		module, _, _ := strings.Cut(word, ":")
		found := slices.ContainsFunc(tools, func(t toolproxy.Tool) bool {
			return t.Framework == byHand && t.Module == module && (matches(word, t) || !slices.ContainsFunc(o.functions.List, func(w string) bool { return matches(w, t) }))
		})
		if !found && !slices.Contains(left, word) {
			left = append(left, word)
		}
	}
	return left
}

// matches is what the hook does: a private function is named in full.
func matches(word string, t toolproxy.Tool) bool {
	module, glob, _ := strings.Cut(word, ":")
	if t.Module != module {
		return false
	}
	fits, err := path.Match(strings.ReplaceAll(glob, "[!", "[^"), t.Qualname)
	return t.Qualname == glob || err == nil && fits && !strings.HasPrefix(t.Qualname, "_")
}
