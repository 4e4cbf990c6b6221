package local

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
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
	dnsConcurrent = 8
	dnsPause      = time.Millisecond // after each one past DNSLookups: a flood takes no processor
)

// relay answers a sandbox's DNS questions by asking this machine's name
// servers. It is the only way out of a sandbox. It answers every question, if
// only with a failure, so that a program never waits for nothing.
type relay struct {
	servers []string      // host:port
	lookups *atomic.Int64 // questions answered so far, all sandboxes together

	// For tests that show what each stops: any message passes, and any number.
	plain, unbounded bool
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
	left := &budget{unbounded: r.unbounded}
	left.Store(DNSLookups)
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		question := append([]byte(nil), buf[:size]...)
		r.lookups.Add(1)
		if !left.spend() {
			reply(conn, failure(question, dnsmessage.RCodeRefused), from)
			time.Sleep(dnsPause)
			continue
		}
		turns <- struct{}{}
		go func() {
			defer func() { <-turns }()
			reply(conn, r.answer(ctx, question, left), from)
		}()
	}
}

// budget is what the name servers may still be sent for one sandbox: questions,
// and those that are put again.
type budget struct {
	atomic.Int64
	unbounded bool
}

func (b *budget) spend() bool { return b.Add(-1) >= 0 || b.unbounded }

// reply sends an answer, if there is one; a program that has gone misses nothing.
func reply(conn net.PacketConn, answer []byte, to net.Addr) {
	if answer != nil {
		conn.WriteTo(answer, to)
	}
}

// answer asks the servers. It is nil for what is not a plain question:
// only lookups pass, and only as a message of our own making, since a name
// server may take updates from this machine.
func (r *relay) answer(ctx context.Context, asked []byte, left *budget) []byte {
	message, err := r.message(asked)
	if err != nil {
		return failure(asked, dnsmessage.RCodeRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	if answer := r.resolve(ctx, message, left); answer != nil {
		copy(answer, asked[:2]) // the id that the program asked with
		return answer
	}
	return failure(asked, dnsmessage.RCodeServerFailure)
}

var errNoQuestion = errors.New("not a lookup of one name")

// message asks in words of our own what a program has asked.
func (r *relay) message(asked []byte) ([]byte, error) {
	if r.plain && len(asked) > 2 {
		return asked, nil
	}
	question, err := parseQuestion(asked)
	if err != nil {
		return nil, err
	}
	var id [2]byte
	rand.Read(id[:])
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: binary.BigEndian.Uint16(id[:]), RecursionDesired: true},
		Questions: []dnsmessage.Question{question},
	}
	return message.Pack()
}

// parseQuestion takes the one question out of a message.
func parseQuestion(message []byte) (q dnsmessage.Question, err error) {
	var p dnsmessage.Parser
	head, err := p.Start(message)
	if err != nil {
		return q, err
	}
	if head.Response || head.OpCode != 0 {
		return q, errNoQuestion
	}
	questions, err := p.AllQuestions()
	if err != nil {
		return q, err
	}
	if len(questions) != 1 || questions[0].Class != dnsmessage.ClassINET ||
		questions[0].Type == dnsmessage.TypeAXFR || questions[0].Type == dnsmessage.TypeALL {
		return q, errNoQuestion
	}
	return questions[0], nil
}

// failure is an answer without one; nil when the question cannot be read.
func failure(asked []byte, code dnsmessage.RCode) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(asked)
	if err != nil || head.Response {
		return nil
	}
	questions, err := p.AllQuestions()
	if err != nil {
		questions = nil
	}
	answer := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: head.ID, Response: true, OpCode: head.OpCode, RecursionDesired: head.RecursionDesired, RCode: code},
		Questions: questions,
	}
	b, err := answer.Pack()
	if err != nil {
		return nil
	}
	return b
}
