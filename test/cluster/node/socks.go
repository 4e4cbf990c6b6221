package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Numbers of SOCKS version 5, RFC 1928.
const (
	socksVersion   = 5
	socksConnect   = 1
	socksIPv4      = 1
	socksName      = 3
	socksIPv6      = 4
	socksOK        = 0
	socksUnreached = 4
)

// socks lets the machine connect to any address and name of the cluster.
type socks struct{ dialer net.Dialer }

func newSocks(resolver string) *socks {
	ask := func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, resolver)
	}
	return &socks{dialer: net.Dialer{Timeout: dialTimeout, Resolver: &net.Resolver{PreferGo: true, Dial: ask}}}
}

// open reads what a client asks for, connects to it, and says how that went.
func (s *socks) open(c net.Conn) (net.Conn, error) {
	if err := c.SetDeadline(time.Now().Add(2 * dialTimeout)); err != nil {
		return nil, err
	}
	target, err := readRequest(c)
	if err != nil {
		return nil, fmt.Errorf("cannot read the request: %w", err)
	}
	to, dialed := s.dialer.Dial("tcp4", target)
	status := byte(socksOK)
	if dialed != nil {
		status = socksUnreached
	}
	if _, err := c.Write([]byte{socksVersion, status, 0, socksIPv4, 0, 0, 0, 0, 0, 0}); err != nil {
		return nil, err
	}
	if dialed != nil {
		return nil, dialed
	}
	return to, c.SetDeadline(time.Time{})
}

func readRequest(c io.ReadWriter) (string, error) {
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return "", err
	}
	if head[0] != socksVersion {
		return "", errors.New("not SOCKS version 5")
	}
	if _, err := io.CopyN(io.Discard, c, int64(head[1])); err != nil {
		return "", err
	}
	if _, err := c.Write([]byte{socksVersion, 0}); err != nil {
		return "", err
	}
	var request [4]byte
	if _, err := io.ReadFull(c, request[:]); err != nil {
		return "", err
	}
	if request[1] != socksConnect {
		return "", errors.New("only connections are passed on")
	}
	host, err := readHost(c, request[3])
	if err != nil {
		return "", err
	}
	var port [2]byte
	if _, err := io.ReadFull(c, port[:]); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port[:])))), nil
}

func readHost(from io.Reader, kind byte) (string, error) {
	size := map[byte]int{socksIPv4: net.IPv4len, socksIPv6: net.IPv6len}[kind]
	if kind == socksName {
		var n [1]byte
		if _, err := io.ReadFull(from, n[:]); err != nil {
			return "", err
		}
		size = int(n[0])
	}
	if size == 0 {
		return "", errors.New("neither an address nor a name")
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(from, b); err != nil {
		return "", err
	}
	if kind == socksName {
		return string(b), nil
	}
	return net.IP(b).String(), nil
}
