package node

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// pipe is a client's bytes, and the answers to it.
type pipe struct {
	io.Reader
	answers strings.Builder
}

func (p *pipe) Write(b []byte) (int, error) { return p.answers.Write(b) }

func TestReadRequest(t *testing.T) {
	f := func(bytes, want string) {
		t.Helper()
		got, err := readRequest(&pipe{Reader: strings.NewReader(bytes)})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	const hello = "\x05\x01\x00"
	// an address
	f(hello+"\x05\x01\x00\x01\x0a\xf4\x00\x05\x1f\x40", "10.244.0.5:8000")
	// a name
	f(hello+"\x05\x01\x00\x03\x03abc\x00\x50", "abc:80")
	// an address of version 6
	f(hello+"\x05\x01\x00\x04"+strings.Repeat("\x00", 15)+"\x01\x00\x50", "[::1]:80")
	// another version
	f("\x04\x01\x00", "")
	// a request to listen
	f(hello+"\x05\x02\x00\x01\x0a\xf4\x00\x05\x1f\x40", "")
	// a kind of address that there is not
	f(hello+"\x05\x01\x00\x09abc", "")
	// too short
	f(hello+"\x05\x01\x00\x03\xffabc", "")
	f("", "")
}

// FuzzReadRequest: bytes of a client never do more than fail.
func FuzzReadRequest(f *testing.F) {
	f.Add("\x05\x01\x00\x05\x01\x00\x03\x03abc\x00\x50")
	f.Fuzz(func(t *testing.T, bytes string) {
		if got, err := readRequest(&pipe{Reader: strings.NewReader(bytes)}); err == nil {
			if _, _, err := net.SplitHostPort(got); err != nil {
				t.Errorf("%q: %v", got, err)
			}
		}
	})
}

// What one side sends the other gets, and the end of it as well, while the
// other direction goes on.
func TestSplice(t *testing.T) {
	client, inner := connected(t)
	outer, server := connected(t)
	done := make(chan struct{})
	go func() { defer close(done); splice(inner, outer) }()
	if _, err := client.Write([]byte("ask")); err != nil {
		t.Fatal(err)
	}
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(server); err != nil || string(got) != "ask" {
		t.Fatalf("the server got %q, %v", got, err)
	}
	if _, err := server.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(client); err != nil || string(got) != "answer" {
		t.Fatalf("the client got %q, %v", got, err)
	}
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("it goes on after both ends")
	}
}

// connected are the two ends of a connection.
func connected(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{near, far} {
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	return near, far
}
