package local

import (
	"context"
	"encoding/binary"
	"net"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// dnsAgain is how long a server has before the question is put again, to the
	// next one or, where there is none, to the same: packets get lost. Each time
	// it is twice as long.
	dnsAgain = 100 * time.Millisecond
	dnsTries = 4 // at 0, 0.1, 0.3 and 0.7 s
)

// resolve puts a question to the servers until one answers; nil when none does.
// The first time is paid for, the others come out of what is left.
func (r *relay) resolve(ctx context.Context, message []byte, left *budget) []byte {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tries := max(dnsTries, len(r.servers))
	answers := make(chan []byte, tries)
	pause := dnsAgain
	again := time.NewTimer(pause)
	defer again.Stop()
	begun, ended := 0, 0
	next := func() {
		if begun > 0 && !left.spend() {
			return
		}
		server := r.servers[begun%len(r.servers)]
		begun++
		go func() { answers <- ask(ctx, server, message) }() // ends with ctx
	}
	if len(r.servers) > 0 {
		next()
	}
	for ended < begun {
		select {
		case answer := <-answers:
			if answer != nil {
				return answer
			}
			if ended++; begun < len(r.servers) {
				next() // that one is not there
			}
		case <-again.C:
			if begun < tries {
				next()
			}
			pause *= 2
			again.Reset(pause)
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// ask puts a question to one server; nil when no answer to it comes.
func ask(ctx context.Context, server string, message []byte) []byte {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", server)
	if err != nil {
		return nil
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(message); err != nil {
		return nil
	}
	buf := make([]byte, dnsMessage)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return nil
		}
		var p dnsmessage.Parser
		if head, err := p.Start(buf[:n]); err == nil && head.Response && head.ID == binary.BigEndian.Uint16(message) {
			return buf[:n]
		}
	}
}
