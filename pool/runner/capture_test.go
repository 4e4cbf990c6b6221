package runner

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// captured feeds a capture with the given writes and returns what it kept and
// what a listener saw.
func captured(t *testing.T, limit int, writes ...string) (c *capture, seen string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sink := func(_ wire.Stream, text string) { seen += text }
	c = newCapture(r, limit, &live{sink: sink, stream: wire.Stdout, mu: new(sync.Mutex)})
	for _, text := range writes {
		c.add([]byte(text))
	}
	w.Close()
	c.read()
	c.finishLive()
	return c, seen
}

func TestCaptureKeepsHeadAndTail(t *testing.T) {
	f := func(limit int, writes []string, want string, truncated bool) {
		t.Helper()
		c, _ := captured(t, limit, writes...)
		if got := c.text(); got != want || c.truncated() != truncated {
			t.Errorf("kept %q, truncated %v; want %q, %v", got, c.truncated(), want, truncated)
		}
		if total := len(strings.Join(writes, "")); c.total != int64(total) {
			t.Errorf("counted %d bytes, %d were written", c.total, total)
		}
	}
	// Nothing.
	f(10, nil, "", false)
	// Under the limit, and exactly at it: whole.
	f(10, []string{"abc"}, "abc", false)
	f(10, []string{"0123456789"}, "0123456789", false)
	// One byte over.
	f(10, []string{"0123456789x"}, "01234"+leftOut(1)+"6789x", true)
	// The same, a byte at a time.
	f(10, strings.Split("0123456789x", ""), "01234"+leftOut(1)+"6789x", true)
	// The tail is the last bytes, however they came.
	f(10, []string{"01234", strings.Repeat("-", 1000), "abcde"}, "01234"+leftOut(1000)+"abcde", true)
	f(10, []string{"01234-", "--ab", "cde"}, "01234"+leftOut(3)+"abcde", true)
	// An odd limit.
	f(7, []string{"abcdefgh"}, "abc"+leftOut(1)+"efgh", true)
	// A character cut by either end is left out whole.
	f(10, []string{"012é" + "------" + "é6789"}, "012é"+leftOut(8)+"6789", true)
}

func TestCaptureStreamsWhatItCan(t *testing.T) {
	f := func(limit int, writes []string, want string) {
		t.Helper()
		if _, seen := captured(t, limit, writes...); seen != want {
			t.Errorf("streamed %q, want %q", seen, want)
		}
	}
	// All of it, when it fits.
	f(10, []string{"abc", "def"}, "abcdef")
	// A character split over two writes comes out whole.
	f(10, []string{"\xc3", "\xa9!"}, "é!")
	// One that never ends is replaced at the end.
	f(10, []string{"a\xc3"}, "a\ufffd")
	// Past the limit: what was not streamed of the tail follows.
	f(10, []string{"0123456789", "xy"}, "0123456789xy")
	f(10, []string{"0123456789", strings.Repeat("-", 100), "abcde"}, "0123456789"+leftOut(100)+"abcde")
}

func TestText(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := toText([]byte(in)); got != want {
			t.Errorf("toText(%q) is %q, want %q", in, got, want)
		}
	}
	f("plain é", "plain é")
	// Each byte that is no character is replaced; NUL is one.
	f("\xff\x00\xfe", "\ufffd\x00\ufffd")
	f("a\xc3", "a\ufffd")
}

// However much is written, memory stays what the limit allows.
func TestCaptureIsBounded(t *testing.T) {
	c, _ := captured(t, 1000)
	chunk := []byte(strings.Repeat("x", 64<<10))
	allocs := testing.AllocsPerRun(100, func() { c.addTail(chunk) })
	if allocs > 0 || cap(c.head)+cap(c.tail) > 4000 {
		t.Errorf("%v allocations a chunk, %d bytes held", allocs, cap(c.head)+cap(c.tail))
	}
}
