package runner

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// words is what a program says on its control socket. Reads wait until the
// program has ended; from then on they give what is there, and end of file
// where nothing is, though a child of it may hold the socket open.
type words struct {
	conn  net.Conn
	ended atomic.Bool
}

// end says that the program has ended: whatever it said has arrived.
func (w *words) end() {
	w.ended.Store(true)
	w.conn.SetReadDeadline(time.Unix(1, 0))
}

// Read implements io.Reader.
func (w *words) Read(p []byte) (int, error) {
	n, err := w.conn.Read(p)
	if n == 0 && w.ended.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		return w.rest(p)
	}
	return n, err
}

// rest reads without waiting. A connection past its deadline does not even look
// at what has arrived, so the kernel is asked.
func (w *words) rest(p []byte) (n int, err error) {
	conn, ok := w.conn.(syscall.Conn)
	if !ok {
		return 0, io.EOF // a connection in memory: what was sent was read
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, io.EOF // closed
	}
	closed := raw.Control(func(fd uintptr) {
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			n, err = syscall.Read(int(fd), p)
		}
	})
	if closed != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}
