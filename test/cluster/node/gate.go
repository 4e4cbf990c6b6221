package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// gate opens once what it looks at answers. It is looked at only while
// somebody waits, and once for all who wait.
type gate struct {
	what Ready
	once sync.Once
	open chan struct{}
}

func newGate(what Ready) *gate { return &gate{what: what, open: make(chan struct{})} }

func (g *gate) wait(ctx context.Context) error {
	g.once.Do(func() { go g.poll(ctx) })
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) poll(ctx context.Context) {
	for ctx.Err() == nil {
		if g.answers(ctx) {
			close(g.open)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (g *gate) answers(ctx context.Context) bool {
	if g.what.Unix != "" {
		c, err := net.DialTimeout("unix", g.what.Unix, time.Second)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	if g.what.CA != "" {
		pem, err := os.ReadFile(g.what.CA)
		if err != nil {
			return false
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.what.URL, nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}
