package runner

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// drainBytes bounds what is read of a pipe after its program has ended: more
// than any pipe holds, so that only a writer that outlived its program is cut.
const drainBytes = 2 << 20

var chunks = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// capture keeps the head and the tail of one output stream, and counts it.
// Its memory never exceeds its limit, however much is written.
type capture struct {
	file  *os.File
	limit int
	live  *live // nil when nobody listens

	head  []byte
	tail  []byte // a ring once it is full; next is its oldest byte
	next  int
	total int64
	done  chan struct{}
}

func newCapture(file *os.File, limit int, live *live) *capture {
	return &capture{file: file, limit: limit, live: live, done: make(chan struct{})}
}

// read keeps reading until end of file or until stop.
func (c *capture) read() {
	defer close(c.done)
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	for {
		n, err := c.file.Read(*buf)
		c.add((*buf)[:n])
		if err != nil {
			return
		}
	}
}

// stop ends read, then takes what the pipe holds now, without waiting.
func (c *capture) stop() {
	c.waitUntil(time.Unix(1, 0))
	c.drain()
}

// waitUntil lets read go on to end of file, but not past t.
func (c *capture) waitUntil(t time.Time) {
	c.file.SetReadDeadline(t)
	<-c.done
}

func (c *capture) drain() {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return
	}
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	raw.Control(func(fd uintptr) {
		for left := drainBytes; left > 0; {
			n, err := syscall.Read(int(fd), *buf)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 || err != nil {
				return
			}
			c.add((*buf)[:n])
			left -= n
		}
	})
}

func (c *capture) add(b []byte) {
	if len(b) == 0 {
		return
	}
	if c.live != nil {
		c.live.add(b, c.limit-int(min(c.total, int64(c.limit))))
	}
	c.total += int64(len(b))
	if room := c.limit/2 - len(c.head); room > 0 {
		n := min(room, len(b))
		c.head = append(c.head, b[:n]...)
		b = b[n:]
	}
	c.addTail(b)
}

func (c *capture) addTail(b []byte) {
	size := c.limit - c.limit/2
	if len(b) >= size {
		c.tail = append(c.tail[:0], b[len(b)-size:]...)
		c.next = 0
		return
	}
	if room := size - len(c.tail); room > 0 {
		n := min(room, len(b))
		c.tail = append(c.tail, b[:n]...)
		b = b[n:]
	}
	for len(b) > 0 {
		n := copy(c.tail[c.next:], b)
		c.next = (c.next + n) % size
		b = b[n:]
	}
}

func (c *capture) truncated() bool { return c.total > int64(c.limit) }

// last is what the tail holds, in order.
func (c *capture) last() []byte { return slices.Concat(c.tail[c.next:], c.tail[:c.next]) }

// text is what was kept, as valid UTF-8, with a line in place of what was not.
func (c *capture) text() string {
	tail := c.last()
	if !c.truncated() {
		return toText(slices.Concat(c.head, tail))
	}
	head, tail := trimEnd(c.head), trimStart(tail)
	return toText(head) + leftOut(c.total-int64(len(head)+len(tail))) + toText(tail)
}

// finishLive sends a listener what it has not seen and will want: the end of
// an output that went past the limit.
func (c *capture) finishLive() {
	if c.live == nil {
		return
	}
	c.live.flush()
	if !c.truncated() {
		return
	}
	tail := c.last()
	if unseen := c.total - int64(c.limit); int64(len(tail)) > unseen {
		tail = tail[int64(len(tail))-unseen:]
	}
	tail = trimStart(tail)
	omitted := c.total - int64(c.limit) - int64(len(tail))
	if omitted > 0 {
		c.live.send(leftOut(omitted))
	}
	c.live.send(toText(tail))
}

func leftOut(n int64) string { return fmt.Sprintf("\n[… %d bytes left out …]\n", n) }

// live passes text to a sink as it comes, never splitting a character.
type live struct {
	sink   wire.Sink
	stream wire.Stream
	mu     *sync.Mutex // shared by both streams of a run
	rest   []byte
}

// add passes on at most room bytes of b.
func (l *live) add(b []byte, room int) {
	if room <= 0 {
		return
	}
	b = append(l.rest, b[:min(room, len(b))]...)
	whole := trimEnd(b)
	l.rest = append([]byte(nil), b[len(whole):]...)
	l.send(toText(whole))
}

func (l *live) flush() {
	l.send(toText(l.rest))
	l.rest = nil
}

func (l *live) send(text string) {
	if text == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sink(l.stream, text)
}

// toText makes valid UTF-8 of b: each byte that is not part of a character
// becomes U+FFFD.
func toText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var text strings.Builder
	text.Grow(len(b) + 16)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		text.WriteRune(r)
		b = b[n:]
	}
	return text.String()
}

// trimEnd cuts a character that is only begun off the end of b.
func trimEnd(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if start := b[len(b)-n:]; utf8.RuneStart(start[0]) {
			if !utf8.FullRune(start) {
				return b[:len(b)-n]
			}
			return b
		}
	}
	return b
}

// trimStart cuts the end of a character that began before b off its start.
func trimStart(b []byte) []byte {
	for n := 0; n < utf8.UTFMax-1 && n < len(b); n++ {
		if utf8.RuneStart(b[n]) {
			return b[n:]
		}
	}
	return b
}
