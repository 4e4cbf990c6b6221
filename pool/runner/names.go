package runner

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// names are the paths that an answer names, each of one file.
type names map[string]bool

// text is the path that stands for name in an answer. A name that is UTF-8
// stands for itself; it must be asked for before those that are not. In those,
// bytes that are no character are written \xNN, and where another file has that
// very name, a number tells the two apart.
func (n names) text(name string) string {
	text := escaped(name)
	for again := 2; text != name && n[text]; again++ {
		text = fmt.Sprintf("%s~%d", escaped(name), again)
	}
	n[text] = true
	return text
}

func escaped(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	var text strings.Builder
	for i, r := range name {
		_, size := utf8.DecodeRuneInString(name[i:])
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&text, `\x%02x`, name[i])
			continue
		}
		text.WriteRune(r)
	}
	return text.String()
}
