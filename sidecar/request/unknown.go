package request

import (
	"fmt"
	"slices"
	"strings"
)

// synonyms are names that callers guess, and what they mean.
var synonyms = map[string]string{
	"source": "code", "script": "code", "python": "code", "program": "code", "snippet": "code", "python_code": "code",
	"input": "stdin", "argv": "args", "arguments": "args", "environment": "env", "environ": "env",
	"timeout_ms": "timeout_seconds", "time_limit": "timeout_seconds",
	"name": "path", "filename": "path", "data": "content", "contents": "content",
}

// Known says whether a request may have a field of this name.
func Known(name string) bool { return slices.Contains(Fields, name) }

// unknown is the error for a name that is not among the allowed, with the
// nearest one that is.
func unknown(name, what string, allowed []string) error {
	near := synonyms[strings.ToLower(name)]
	if !slices.Contains(allowed, near) {
		near = Nearest(name, allowed)
	}
	if near != "" {
		return fmt.Errorf("%s has an unknown field %q: did you mean %q?", what, Clip(name), near)
	}
	return fmt.Errorf("%s has an unknown field %q: the fields are %s", what, Clip(name), strings.Join(allowed, ", "))
}

// Nearest is the word that was most likely meant by one that is not among the
// allowed; empty when none is near.
func Nearest(word string, allowed []string) (near string) {
	best := 0
	for _, a := range allowed {
		d := distance(strings.ToLower(word), a)
		if d <= len(a)/2 && (near == "" || d < best) {
			near, best = a, d
		}
	}
	return near
}

// Clip keeps a foreign name short enough for a message.
func Clip(s string) string {
	if len(s) <= 64 {
		return s
	}
	return strings.ToValidUTF8(s[:64], "") + "…"
}

// distance is how many letters must be put in, taken out or changed to make b
// of a. Names far longer than any field are far from all of them.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := left
			if a[i] != b[j] {
				cost++
			}
			left = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
