package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
)

var errOther = errors.New("it is not the runner that was spoken to before")

// Egress waits until the program of a copy with Egress connects to its proxy, and
// returns that connection. It is carried by one that is dialled to the runner,
// which is known by its key and knows the pool by the secret: the address alone
// gives nothing. It may be called beside Run; ctx bounds the wait and not what is
// returned.
func (c *Conn) Egress(ctx context.Context) (net.Conn, error) {
	conn, err := c.again(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the runner at %q for a program's connection: %w", c.addr, err)
	}
	release := context.AfterFunc(ctx, func() { _ = conn.NetConn().Close() }) // a farewell would wait
	carried, err := c.ask(conn)
	if !release() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.NetConn().Close()
		return nil, fmt.Errorf("the runner carries no connection of the program: %w", err)
	}
	return carried, nil
}

// again dials the runner once more.
func (c *Conn) again(ctx context.Context) (*tls.Conn, error) {
	key := c.conn.ConnectionState().PeerCertificates[0].Raw
	ctx, cancel := context.WithTimeout(ctx, greetBound)
	defer cancel()
	raw, err := c.dial(ctx, "tcp", c.addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, //nolint:gosec // the certificate is compared
		VerifyConnection: func(s tls.ConnectionState) error {
			if !bytes.Equal(s.PeerCertificates[0].Raw, key) {
				return errOther
			}
			return nil
		},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

// ask sends the request and waits for the program.
func (c *Conn) ask(conn *tls.Conn) (net.Conn, error) {
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: runner\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n", protocol.EgressPath, c.secret)
	if err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil, refusal(res, protocol.EgressPath)
	}
	return &carried{Conn: conn, reader: reader}, nil
}

// carried is a connection of which something may have been read already.
type carried struct {
	*tls.Conn
	reader *bufio.Reader
}

func (c *carried) Read(b []byte) (int, error) { return c.reader.Read(b) }

// Close hangs up: a farewell would wait for a program that reads no more.
func (c *carried) Close() error { return c.NetConn().Close() }
