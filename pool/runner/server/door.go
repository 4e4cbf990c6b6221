package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
)

// newCertificate makes a key for this process and nothing else: nobody can know
// it beforehand, and it says nothing.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// authenticated lets nobody in but who has the secret. Whoever has not learns
// nothing, not even which paths there are, and uses nothing up.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		hash := sha256.Sum256([]byte(secret))
		if !ok || subtle.ConstantTimeCompare(hash[:], s.secret) != 1 {
			refuse(w, http.StatusUnauthorized, api.Errorf(api.Unauthenticated, "the runner serves its pool only"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers an error, after which the connection is closed.
func refuse(w http.ResponseWriter, status int, e *api.Error) {
	body, err := json.Marshal(protocol.Refusal{Error: e})
	if err != nil {
		panic("BUG: an error is not JSON: " + err.Error())
	}
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // nobody else is there to tell
}

// limited accepts at most so many connections at once.
type limited struct {
	net.Listener
	places chan struct{}
	closed context.Context
	close  context.CancelFunc
}

func limit(l net.Listener, most int) net.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	return &limited{Listener: l, places: make(chan struct{}, most), closed: ctx, close: cancel}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

func (l *limited) Close() error {
	l.close()
	return l.Listener.Close()
}

// placed gives its place back when it is closed.
type placed struct {
	net.Conn
	leave func()
}

func (p *placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}

// few passes on so many writes, and drops what comes after.
type few struct {
	mu   sync.Mutex
	to   io.Writer
	left int
}

func (f *few) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return len(b), nil
	}
	f.left--
	return f.to.Write(b)
}
