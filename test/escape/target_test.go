// Package escape runs hostile programs, as a table: each must be stopped, each
// names the layer that stops it, and without that layer the same test fails:
// either with the layer left out of the sandbox or, for what our runner stops
// from the outside, on this machine with a simple runner in place of ours.
package escape

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/local"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// target runs a program in a sandbox of its own, which is gone when it returns.
type target interface {
	Run(ctx context.Context, req *wire.Request) (*wire.Result, error)
}

// machine is the target on this machine: the local driver, in this process.
type machine struct {
	driver *local.Driver
	limits wire.Limits
	names  *nameServer
}

// newMachine makes one, with some layers left out; fresh gives each sandbox an
// interpreter of its own.
func newMachine(t *testing.T, fresh bool, without ...string) *machine {
	t.Helper()
	python, err := local.LookPython(t.Context(), "/usr/bin/python3") // one that any user can read
	if err != nil {
		t.Fatal(err)
	}
	limits := wire.DefaultLimits()
	names := newNameServer(t)
	d, err := local.New(local.Options{
		Python: python, MemoryBytes: limits.MemoryBytes, FreshInterpreter: fresh, Without: without, NameServers: []string{names.address}, Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return &machine{driver: d, limits: limits, names: names}
}

func (m *machine) Run(ctx context.Context, req *wire.Request) (*wire.Result, error) {
	s, err := m.driver.Start(ctx, pool.Template{Limits: m.limits, DNS: "relay"})
	if err != nil {
		return nil, err
	}
	res, err := s.Run(ctx, req, nil)
	return res, errors.Join(err, m.driver.Destroy(context.WithoutCancel(ctx), s.ID()))
}

// nameServer stands for this machine's own, and notes all that it is sent.
type nameServer struct {
	address string

	mu      sync.Mutex
	lookups int
	odd     []string // whatever is no plain lookup
}

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n := &nameServer{address: conn.LocalAddr().String()}
	go n.serve(conn)
	return n
}

func (n *nameServer) serve(conn net.PacketConn) {
	buf := make([]byte, 65536)
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(buf[:size]); err != nil || m.OpCode != 0 || len(m.Questions) != 1 || len(m.Answers)+len(m.Authorities)+len(m.Additionals) > 0 {
			n.note(fmt.Sprintf("%q", buf[:size]))
			continue
		}
		n.note("")
		m.Response = true
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, 7}},
		}}
		if answer, err := m.Pack(); err == nil {
			conn.WriteTo(answer, from)
		}
	}
}

func (n *nameServer) note(odd string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if odd != "" {
		n.odd = append(n.odd, odd)
		return
	}
	n.lookups++
}

func unprivileged() bool { return os.Geteuid() != 0 }
