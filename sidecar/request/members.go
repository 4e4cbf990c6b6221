package request

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// members calls f with each name and value of a JSON object, in order. raw
// must be valid JSON (json.Valid); values are slices of it, not copies. A
// name given twice is an error: two readers could disagree on which one counts.
func members(raw []byte, what string, f func(name string, value []byte) error) error {
	i := space(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return fmt.Errorf("%s must be a JSON object, not %s", what, kind(raw))
	}
	seen := make(map[string]bool, 8)
	for i = space(raw, i+1); raw[i] != '}'; {
		end := skip(raw, i)
		name, err := text(raw[i:end], "a name in "+what)
		if err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("%s has %q twice: give it once", what, name)
		}
		seen[name] = true
		i = space(raw, space(raw, end)+1) // over the colon
		end = skip(raw, i)
		if err := f(name, raw[i:end]); err != nil {
			return err
		}
		if i = space(raw, end); raw[i] == ',' {
			i = space(raw, i+1)
		}
	}
	return nil
}

// elements calls f with each value of a JSON list, under the rules of members.
func elements(raw []byte, what string, f func(i int, value []byte) error) error {
	i := space(raw, 0)
	if raw[i] != '[' {
		return fmt.Errorf("%s must be a list, not %s", what, kind(raw))
	}
	n := 0
	for i = space(raw, i+1); raw[i] != ']'; n++ {
		end := skip(raw, i)
		if err := f(n, raw[i:end]); err != nil {
			return err
		}
		if i = space(raw, end); raw[i] == ',' {
			i = space(raw, i+1)
		}
	}
	return nil
}

// text is a JSON string's value. encoding/json would silently put U+FFFD for
// half a surrogate pair and for what is not UTF-8; here both are errors.
func text(raw []byte, what string) (string, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", fmt.Errorf("%s must be a string, not %s", what, kind(raw))
	}
	if !utf8.Valid(raw) {
		return "", fmt.Errorf("%s must be UTF-8", what)
	}
	if at := loneSurrogate(raw); at >= 0 {
		return "", fmt.Errorf("%s must be a string of UTF-8: the escape %s is half of a surrogate pair and stands for no character", what, raw[at:at+6])
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", what, err)
	}
	return s, nil
}

// loneSurrogate is where in a JSON string an escape stands for half a
// surrogate pair, or -1.
func loneSurrogate(raw []byte) int {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; raw[i] != 'u' {
			continue
		}
		unit := hex4(raw[i+1:])
		switch unit >> 10 {
		case 0xDC00 >> 10:
			return i - 1
		case 0xD800 >> 10:
			if len(raw) < i+11 || raw[i+5] != '\\' || raw[i+6] != 'u' || hex4(raw[i+7:])>>10 != 0xDC00>>10 {
				return i - 1
			}
			i += 6
		}
		i += 4
	}
	return -1
}

func hex4(b []byte) (n uint32) {
	for _, c := range b[:4] {
		n <<= 4
		switch {
		case c <= '9':
			n |= uint32(c - '0')
		default:
			n |= uint32(c|0x20) - 'a' + 10
		}
	}
	return n
}

func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i
}

// skip is where the value that starts at i ends.
func skip(raw []byte, i int) int {
	depth := 0
	for ; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // a number or a word that ends with what holds it
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// kind names the JSON type of raw for an error.
func kind(raw []byte) string {
	i := space(raw, 0)
	if i == len(raw) {
		return "nothing"
	}
	switch raw[i] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
