package flags

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

// A variable of the environment is a flag's value where the flag is not given;
// one that is empty says nothing.
func TestEnvironment(t *testing.T) {
	f := func(value string, args []string, want time.Duration, says string) {
		t.Helper()
		t.Setenv("CODE_SANDBOX_TEST_WAIT", value)
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		got := fs.Duration("test-wait", time.Minute, "")
		err := Parse(fs, args)
		if says == "" && (err != nil || *got != want) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q, %q: got %v, %v", value, args, *got, err)
		}
	}
	f("2s", nil, 2*time.Second, "")
	f("2s", []string{"--test-wait", "3s"}, 3*time.Second, "")
	f("", nil, time.Minute, "")
	f("soon", nil, 0, `CODE_SANDBOX_TEST_WAIT="soon"`)
}

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
	f("999TiB", 999<<40, "999TiB")
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
