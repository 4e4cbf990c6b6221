package local

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// nameServer answers every A question with 203.0.113.7, and counts what comes.
func nameServer(t *testing.T, seen *atomic.Int64) string {
	t.Helper()
	return lossyNameServer(t, seen, func(int64) bool { return false })
}

// lossyNameServer loses the questions, counted from 1, that lost says.
func lossyNameServer(t *testing.T, seen *atomic.Int64, lost func(int64) bool) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if lost(seen.Add(1)) {
				continue
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil {
				continue
			}
			m.Response = true
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60},
					Body:   &dnsmessage.AResource{A: [4]byte{203, 0, 113, 7}},
				}}
			}
			packed, err := m.Pack()
			if err == nil {
				conn.WriteTo(packed, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

func TestDNS(t *testing.T) {
	var seen atomic.Int64
	server := nameServer(t, &seen)
	f := func(servers []string, code, want string) {
		t.Helper()
		d := newDriver(t, func(o *Options) { o.NameServers = servers })
		if res := run(t, d, code); !strings.Contains(res.Stdout+res.Stderr, want) {
			t.Errorf("got %q %q, want %q", res.Stdout, res.Stderr, want)
		}
	}
	lookup := "import socket; print(socket.gethostbyname('service.example'))"
	// A lookup is answered, also by the second server when the first is not there.
	f([]string{server}, lookup, "203.0.113.7\n")
	f([]string{"127.0.0.1:1", server}, lookup, "203.0.113.7\n")
	// A server that says nothing keeps nobody from asking the second.
	silent := lossyNameServer(t, new(atomic.Int64), func(int64) bool { return true })
	f([]string{silent, server}, lookup, "203.0.113.7\n")
	// A lost question is put again.
	f([]string{lossyNameServer(t, new(atomic.Int64), func(n int64) bool { return n == 1 })}, lookup, "203.0.113.7\n")
	// Nobody who answers, and nobody to ask: a failure within two seconds, not a hang.
	f([]string{silent}, "import time; t = time.time()\ntry:\n "+lookup+"\nexcept OSError as e: print(e.errno, time.time() - t < 2)", "True")
	f([]string{}, "import time; t = time.time()\ntry:\n "+lookup+"\nexcept OSError as e: print(e.errno, time.time() - t < 2)", "True")
	// An update is refused, and never leaves this machine.
	before := seen.Load()
	f([]string{server}, `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.sendto(bytes.fromhex("123428000001000000000000076578616d706c650000060001"), ("127.0.0.1", 53))
print(s.recv(512).hex())`, "1234a805")
	if seen.Load() != before {
		t.Error("the update was passed on")
	}
	// Garbage is not answered, and harms nobody.
	f([]string{server}, `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.2)
try:
    s.sendto(b"x", ("127.0.0.1", 53))
    print(s.recv(512))
except OSError as e:
    print(type(e).__name__)
`+lookup, "203.0.113.7\n")
}

// Without a relay, nothing answers, and at once.
func TestNoDNS(t *testing.T) {
	d := newDriver(t, nil)
	none := pool.Template{Limits: wire.DefaultLimits(), DNS: "none"}
	s, err := d.Start(t.Context(), none)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Destroy(t.Context(), s.ID())
	res, err := s.Run(t.Context(), &wire.Request{TimeoutSeconds: 10, Code: "import socket; socket.gethostbyname('service.example')"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.ExitCode != 1 || res.DurationMS > 3000 || len(res.Denied) != 1 || res.Denied[0] != wire.DeniedNetwork {
		t.Errorf("got %+v", res)
	}
}

// What is put again counts as what is asked does: a server that keeps silent is
// sent no more than a sandbox may.
func TestQuestionsPutAgainCount(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), dnsTimeout)
	defer cancel()
	left := &budget{}
	left.Store(2) // of the three times that it would be put again
	r := &relay{servers: []string{silent.LocalAddr().String()}}
	if answer := r.resolve(ctx, []byte("any question"), left); answer != nil {
		t.Errorf("an answer from nobody: %q", answer)
	}
	silent.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	sent := 0
	for buf := make([]byte, 100); ; sent++ {
		if _, _, err := silent.ReadFrom(buf); err != nil {
			break
		}
	}
	if sent != 3 {
		t.Errorf("it was sent %d times, want 3", sent)
	}
}
