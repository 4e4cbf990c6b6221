package sidecar

import (
	"encoding/binary"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxAge is the oldest that a request can be when it is read. What seems older,
// or not to have come yet, was stamped by a clock that has been set since.
const maxAge = time.Minute

// stampBytes is a stamp as the kernel tells it: seconds, and nanoseconds.
const stampBytes = 16

// arrivals is a listener whose connections know when their bytes came. Go wakes
// the readers of connections in no order at all, so that of 30 requests sent
// within some milliseconds the last may be read first; the kernel knows better.
type arrivals struct{ net.Listener }

// stamping has the kernel stamp what comes to l's connections. They take the
// setting over from l, so that what comes before Accept has a stamp as well.
// Where a kernel does not, requests have come when they are read.
func stamping(l net.Listener) net.Listener {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return l
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return l
	}
	_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	if err != nil {
		return l
	}
	return arrivals{l}
}

// Accept waits for the next connection.
func (l arrivals) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c, nil
	}
	s := &stamped{TCPConn: tcp, raw: raw}
	s.look = s.peek
	return s, nil
}

// stamped is a connection that keeps when the bytes read last had come.
type stamped struct {
	*net.TCPConn
	raw syscall.RawConn
	at  time.Time // zero when it is not known, or was taken

	// Kept, so that a Read allocates nothing.
	look    func(fd uintptr) bool
	first   [1]byte
	control [64]byte
}

// Read waits for bytes, looks when they came, and reads them.
func (s *stamped) Read(p []byte) (int, error) {
	if len(p) > 0 {
		_ = s.raw.Read(s.look) // what is wrong with the connection, the next line tells
	}
	return s.TCPConn.Read(p)
}

// peek takes no byte away. It is false when there is nothing yet.
func (s *stamped) peek(fd uintptr) bool {
	_, used, _, _, err := unix.Recvmsg(int(fd), s.first[:], s.control[:], unix.MSG_PEEK)
	if err == nil {
		s.at = stampOf(s.control[:used], time.Now())
	}
	return err != unix.EAGAIN
}

// take is when the request that was read last had come, or now.
func (s *stamped) take(now time.Time) time.Time {
	at := s.at
	s.at = time.Time{}
	if at.IsZero() {
		return now
	}
	return at
}

// stampOf reads the kernel's stamp, and turns it into a time that can be
// compared with others though the clock is set in between. It is zero without.
func stampOf(control []byte, now time.Time) time.Time {
	if len(control) < unix.CmsgLen(stampBytes) { // as at the end of the stream
		return time.Time{}
	}
	header, data, _, err := unix.ParseOneSocketControlMessage(control)
	if err != nil || header.Level != unix.SOL_SOCKET || header.Type != unix.SCM_TIMESTAMPNS || len(data) < stampBytes {
		return time.Time{}
	}
	seconds, nanoseconds := int64(binary.NativeEndian.Uint64(data)), int64(binary.NativeEndian.Uint64(data[8:]))
	age := time.Duration(now.UnixNano() - seconds*int64(time.Second) - nanoseconds)
	if age < 0 || age > maxAge {
		return time.Time{}
	}
	return now.Add(-age)
}

// arrived is when the request on c had come.
func arrived(c net.Conn, now time.Time) time.Time {
	if s, ok := c.(*stamped); ok {
		return s.take(now)
	}
	return now
}
