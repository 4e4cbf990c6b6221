package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// file is a small file whose content changes now and then: by being replaced,
// as kubelet and editors do, or by being written.
type file struct {
	path string

	mu      sync.Mutex
	info    os.FileInfo
	content string
}

// read returns the content, which is read anew only when the file has changed.
// While a file that was read once cannot be read, it is what it was.
func (f *file) read() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.info != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return f.content, nil
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(f.path)
	}
	text := strings.TrimSpace(string(b))
	if err == nil && text == "" {
		err = fmt.Errorf("%q is empty", f.path)
	}
	if err != nil {
		if f.content != "" {
			return f.content, nil
		}
		return "", err
	}
	f.info, f.content = info, text
	return text, nil
}

// roots are the certificates that the pool's must be signed by.
type roots struct {
	file *file // nil when they are fixed

	mu       sync.Mutex
	text     string
	pool     *x509.CertPool
	sessions tls.ClientSessionCache
}

func newRoots(o Options) (*roots, error) {
	r := &roots{sessions: tls.NewLRUClientSessionCache(16)}
	if o.CAFile != "" {
		r.file = &file{path: o.CAFile}
		return r, nil
	}
	return r, r.set(string(o.CA))
}

func (r *roots) set(text string) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return errors.New("cannot find a certificate in the CA of the pool: it must be PEM")
	}
	r.text, r.pool = text, pool
	return nil
}

// current reads the file when it has changed. One that holds no certificate
// leaves those of before.
func (r *roots) current() (*x509.CertPool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return r.pool, nil
	}
	text, err := r.file.read()
	if err == nil && text != r.text {
		err = r.set(text)
	}
	if err != nil && r.pool == nil {
		return nil, fmt.Errorf("cannot read the CA of the pool: %w", err)
	}
	return r.pool, nil
}

func (r *roots) dial(ctx context.Context, d *net.Dialer, network, address, name string) (net.Conn, error) {
	pool, err := r.current()
	if err != nil {
		return nil, err
	}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, &tls.Config{
		RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"}, ClientSessionCache: r.sessions,
	})
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("cannot agree on TLS with the pool: %w", err)
	}
	return secure, nil
}

// wait waits for d or the end of ctx, and says whether it was d.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
