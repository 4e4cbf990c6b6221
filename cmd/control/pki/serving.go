package pki

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"
)

// leafLife is how long a serving certificate is good. A new one is made when a
// third of it is left.
const leafLife = 24 * time.Hour

// leaf is a certificate to serve with, until renew.
type leaf struct {
	cert  tls.Certificate
	ends  time.Time
	renew time.Time
}

func newLeaf(der []byte, key crypto.PrivateKey, ends, renew time.Time) *leaf {
	return &leaf{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ends: ends, renew: renew}
}

// Serving gives a TLS server its certificate, at each handshake: a new one needs
// no restart and cuts no connection.
type Serving struct {
	mu   sync.Mutex
	leaf *leaf
	next func(now time.Time, had *leaf) (*leaf, error)
}

// TLS is a configuration that serves with it.
func (s *Serving) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return s.certificate(time.Now())
	}}
}

// certificate is the one to serve with now. When a new one cannot be had the
// old one serves while it is good.
func (s *Serving) certificate(now time.Time) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := s.next(now, s.leaf)
	if err == nil {
		s.leaf = next
		return &next.cert, nil
	}
	if s.leaf != nil && now.Before(s.leaf.ends) {
		return &s.leaf.cert, nil
	}
	return nil, err
}

// checkEvery is how long certificate files are taken for unchanged.
const checkEvery = 10 * time.Second

// FromFiles serves with a certificate and a key in PEM that somebody else puts
// there, and renews: they are read again when they change.
func FromFiles(certFile, keyFile string) (*Serving, error) {
	var seen [2]os.FileInfo
	s := &Serving{next: func(now time.Time, had *leaf) (*leaf, error) {
		if had != nil && now.Before(had.renew) {
			return had, nil
		}
		stands, err := stat(certFile, keyFile)
		if err != nil {
			return nil, err
		}
		if had != nil && same(stands, seen) {
			again := *had
			again.renew = now.Add(checkEvery)
			return &again, nil
		}
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the certificate %q and its key %q: %w", certFile, keyFile, err)
		}
		parsed, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			return nil, fmt.Errorf("cannot read the certificate %q: %w", certFile, err)
		}
		seen = stands
		return &leaf{cert: cert, ends: parsed.NotAfter, renew: now.Add(checkEvery)}, nil
	}}
	if _, err := s.certificate(time.Now()); err != nil {
		return nil, err
	}
	return s, nil
}

func stat(certFile, keyFile string) (infos [2]os.FileInfo, err error) {
	for i, name := range []string{certFile, keyFile} {
		if infos[i], err = os.Stat(name); err != nil {
			return infos, fmt.Errorf("cannot read a file of the certificate: %w", err)
		}
	}
	return infos, nil
}

func same(a, b [2]os.FileInfo) bool {
	for i := range a {
		if a[i] == nil || b[i] == nil || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() || !os.SameFile(a[i], b[i]) {
			return false
		}
	}
	return true
}
