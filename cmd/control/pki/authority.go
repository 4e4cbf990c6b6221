// Package pki makes the certificates that the pool and the injector serve with:
// an authority that their replicas share through a Secret, and short-lived
// certificates that each makes for itself, in memory.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// successorAt is how long before its end an authority gets a successor; both
	// are trusted until then.
	successorAt = 365 * 24 * time.Hour
	// slack is for clocks that are behind ours.
	slack = 5 * time.Minute
)

// Authority signs certificates. It does not change: a successor is another one
// that trusts its predecessors too.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// bundle is PEM of all that are trusted, the newest first.
	bundle []byte
}

// newAuthority makes an authority that also trusts what trusted holds, as PEM.
func newAuthority(now time.Time, trusted []byte) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Code Sandbox"},
		NotBefore: now.Add(-slack), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("cannot make an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot make an authority: %w", err)
	}
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &Authority{cert: cert, key: key, bundle: append(bundle, unexpired(trusted, now)...)}, nil
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic("BUG: no random numbers: " + err.Error())
	}
	return n
}

// unexpired is the certificates of the bundle that have not ended.
func unexpired(bundle []byte, now time.Time) (kept []byte) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.NotAfter.After(now) {
			kept = append(kept, pem.EncodeToMemory(block)...)
		}
	}
	return kept
}

// parseAuthority reads what encode wrote.
func parseAuthority(bundle, key []byte) (*Authority, error) {
	first, _ := pem.Decode(bundle)
	private, _ := pem.Decode(key)
	if first == nil || private == nil {
		return nil, errors.New("it holds no certificate or no key in PEM")
	}
	cert, err := x509.ParseCertificate(first.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its certificate is broken: %w", err)
	}
	k, err := x509.ParseECPrivateKey(private.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its key is broken: %w", err)
	}
	if !k.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("its key is not that of its first certificate")
	}
	return &Authority{cert: cert, key: k, bundle: bundle}, nil
}

// encode is the authority as PEM: what is trusted, and the newest one's key.
func (a *Authority) encode() (bundle, key []byte, err error) {
	der, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot encode the authority's key: %w", err)
	}
	return a.bundle, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// Bundle is PEM of every certificate that a client should trust.
func (a *Authority) Bundle() []byte { return a.bundle }

// old says that it is time for a successor.
func (a *Authority) old(now time.Time) bool { return now.Add(successorAt).After(a.cert.NotAfter) }

// issue makes a serving certificate for names, which are DNS names or IP
// addresses.
func (a *Authority) issue(now time.Time, life time.Duration, names []string) (*leaf, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "code-sandbox"},
		NotBefore: now.Add(-slack), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("cannot make a certificate: %w", err)
	}
	return newLeaf(der, key, template.NotAfter, now.Add(life*2/3)), nil
}
