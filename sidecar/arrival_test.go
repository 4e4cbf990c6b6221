package sidecar

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pair is both ends of a connection through a listener that stamps.
func pair(t *testing.T, l net.Listener) (client, server net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return client, server
}

func stampingListener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	l = stamping(l)
	// The kernel begins to stamp a moment after it was asked to.
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		client, served := pair(t, l)
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := served.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if !served.(*stamped).at.IsZero() {
			return l
		}
	}
	t.Fatal("no stamp came")
	return nil
}

// Of two requests, the one that is read last came first.
func TestArrivalIsWhenTheBytesCame(t *testing.T) {
	l := stampingListener(t)
	first, firstServed := pair(t, l)
	second, secondServed := pair(t, l)
	before := time.Now()
	for _, c := range []net.Conn{first, second} {
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
	}
	sent := time.Now()
	buffer := make([]byte, 16)
	var at [2]time.Time
	for i, c := range []net.Conn{secondServed, firstServed} {
		n, err := c.Read(buffer)
		if string(buffer[:n]) != "hello" || err != nil {
			t.Fatalf("read %q, %v", buffer[:n], err)
		}
		at[1-i] = arrived(c, time.Now())
	}
	if !at[0].Before(at[1]) || at[0].Before(before.Add(-time.Millisecond)) || at[1].After(sent.Add(time.Millisecond)) {
		t.Errorf("sent from %v to %v, they came at %v and %v", before, sent, at[0], at[1])
	}
	// What is read at once with its predecessor has no stamp of its own.
	if now := time.Now(); !arrived(firstServed, now).Equal(now) {
		t.Error("a stamp was used twice")
	}
}

// It is a connection as any other.
func TestStampedConnectionEnds(t *testing.T) {
	client, served := pair(t, stampingListener(t))
	buffer := make([]byte, 3)
	if n, err := served.Read(nil); n != 0 || err != nil {
		t.Errorf("nothing to read into: %d, %v", n, err)
	}
	if err := served.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := served.Read(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	if err := served.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	_ = client.(*net.TCPConn).CloseWrite()
	if all, err := io.ReadAll(served); string(all) != "hello" || err != nil {
		t.Errorf("read %q, %v", all, err)
	}
	_ = served.Close()
	if _, err := served.Read(buffer); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestStampsOfAnotherClockAreNotBelieved(t *testing.T) {
	for name, control := range map[string][]byte{"none": nil, "short": {1, 2, 3}, "zero": make([]byte, 64)} {
		if at := stampOf(control, time.Now()); !at.IsZero() {
			t.Errorf("%s: %v", name, at)
		}
	}
	client, served := pair(t, stampingListener(t))
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := served.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s := served.(*stamped)
	if s.at.IsZero() {
		t.Fatal("no stamp came")
	}
	stamp := s.control[:] // of the last read
	for _, off := range []time.Duration{-time.Second, 2 * maxAge} {
		if at := stampOf(stamp, time.Now().Add(off)); !at.IsZero() {
			t.Errorf("a clock off by %v: %v", off, at)
		}
	}
}
