package injector

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// An address has so many connections and no more; others still come in, and one
// that leaves makes room.
func TestNeighbours(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newNeighbours(plain)
	defer func() { _ = l.Close() }()
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	var first net.Conn
	for range maxNeighbour {
		dial("127.0.0.1")
		first = <-accepted
		t.Cleanup(func() { _ = first.Close() })
	}
	over := dial("127.0.0.1")
	_ = over.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := over.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Errorf("one too many is not closed: %v", err)
	}
	dial("127.0.0.2")
	other := <-accepted
	if host, _, _ := net.SplitHostPort(other.RemoteAddr().String()); host != "127.0.0.2" {
		t.Errorf("%s came in", host)
	}
	// It leaves once, however often it is closed.
	_, _ = first.Close(), first.Close()
	again := dial("127.0.0.1")
	if c := <-accepted; c.RemoteAddr().String() != again.LocalAddr().String() {
		t.Errorf("%s came in", c.RemoteAddr())
	}
	if n := l.open["127.0.0.1"]; n != maxNeighbour {
		t.Errorf("%d are open", n)
	}
}
