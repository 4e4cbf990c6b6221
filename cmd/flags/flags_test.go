package flags

import (
	"slices"
	"strings"
	"testing"
)

func TestSize(t *testing.T) {
	f := func(text string, want int64, shown string) {
		t.Helper()
		var s Size
		err := s.Set(text)
		if want < 0 {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%q: got %d, %v", text, s, err)
			}
			return
		}
		if err != nil || int64(s) != want || s.String() != shown {
			t.Errorf("%q: got %d (%s), %v", text, s, s.String(), err)
		}
	}
	// Each unit, shown in the largest that fits.
	f("1GiB", 1<<30, "1GiB")
	f("512MiB", 512<<20, "512MiB")
	f("2048KiB", 2<<20, "2MiB")
	f("1000", 1000, "1000")
	f("0", 0, "0")
	// No size.
	f("", -1, "")
	f("-1", -1, "")
	f("1MB", -1, "")
	f("1.5GiB", -1, "")
	f("MiB", -1, "")
	// More than there are bytes.
	f("9999999999GiB", -1, "")
	f("99999999999999999999", -1, "")
}

func TestList(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		l := List{"old"}
		if err := l.Set(text); err != nil || !slices.Equal(l, want) {
			t.Errorf("%q: got %q, %v", text, l, err)
		}
	}
	f("a", "a")
	f(" a, b ,,c", "a", "b", "c")
	f("")
}
