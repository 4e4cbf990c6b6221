package pooltest

import (
	"bytes"
	"sync"
)

// Buffer is what a test reads while others may still write to it, such as a log.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
