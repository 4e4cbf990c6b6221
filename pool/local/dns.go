package local

import (
	"context"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Bounds on the lookups of one sandbox.
const (
	dnsTimeout    = 800 * time.Millisecond // under the second that resolv.conf gives an answer
	dnsMessage    = 4096                   // bytes
	dnsLookups    = 1000                   // a run
	dnsConcurrent = 8
)

// relay answers a sandbox's DNS questions by asking this machine's name
// servers. It is the only way out of a sandbox. It answers every question, if
// only with a failure, so that a program never waits for nothing.
type relay struct {
	servers []string      // host:port
	lookups *atomic.Int64 // questions answered so far, all sandboxes together
}

// nameServers reads the machine's own configuration.
func nameServers() []string {
	b, _ := os.ReadFile("/etc/resolv.conf")
	var servers []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "nameserver" {
			servers = append(servers, net.JoinHostPort(f[1], "53"))
		}
	}
	return servers
}

// serve answers on conn, a socket bound inside the sandbox, until it is closed.
func (r *relay) serve(conn net.PacketConn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	turns := make(chan struct{}, dnsConcurrent)
	buf := make([]byte, dnsMessage)
	for n := 0; ; n++ {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		question := append([]byte(nil), buf[:size]...)
		r.lookups.Add(1)
		if n >= dnsLookups {
			conn.WriteTo(failure(question), from)
			continue
		}
		turns <- struct{}{}
		go func() {
			defer func() { <-turns }()
			if answer := r.answer(ctx, question); answer != nil {
				conn.WriteTo(answer, from)
			}
		}()
	}
}

// answer asks each server in turn; nil when the question is not one.
func (r *relay) answer(ctx context.Context, question []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(question)
	if err != nil || head.Response {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	for _, server := range r.servers {
		if answer := ask(ctx, server, question, head.ID); answer != nil {
			return answer
		}
	}
	return failure(question)
}

func ask(ctx context.Context, server string, question []byte, id uint16) []byte {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", server)
	if err != nil {
		return nil
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	if _, err := conn.Write(question); err != nil {
		return nil
	}
	buf := make([]byte, dnsMessage)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return nil
		}
		var p dnsmessage.Parser
		if head, err := p.Start(buf[:n]); err == nil && head.Response && head.ID == id {
			return buf[:n]
		}
	}
}

// failure is the answer SERVFAIL to a question; nil when it is not one.
func failure(question []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(question)
	if err != nil {
		return nil
	}
	questions, err := p.AllQuestions()
	if err != nil {
		return nil
	}
	answer := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: head.ID, Response: true, RecursionDesired: head.RecursionDesired, RCode: dnsmessage.RCodeServerFailure},
		Questions: questions,
	}
	b, err := answer.Pack()
	if err != nil {
		return nil
	}
	return b
}
