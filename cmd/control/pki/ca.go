// Package pki makes the certificates of the control plane: an authority that
// its replicas share, and the short-lived certificates that each makes of it.
package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"time"
)

// What the shared Secret holds: the authority that signs, the one that will,
// and the one that did. All that are not over are believed.
const (
	signingCert, signingKey = "ca.crt", "ca.key"
	nextCert, nextKey       = "next.crt", "next.key"
	formerCert              = "former.crt"
)

// backdate allows for clocks that differ.
const backdate = 5 * time.Minute

// plan says what the Secret must hold now. A next authority is there a good
// while before it signs: so all who believe have it by then.
func plan(held map[string][]byte, now time.Time, life time.Duration) (data map[string][]byte, changed bool, err error) {
	data, overlap := maps.Clone(held), life/10
	if data == nil {
		data = map[string][]byte{}
	}
	current, err := readPair(data[signingCert], data[signingKey])
	if err != nil && len(data[signingCert]) > 0 {
		return nil, false, fmt.Errorf("cannot read the authority: %w; when its Secret is deleted a new one is made", err)
	}
	if err != nil || !now.Before(current.cert.NotAfter) {
		if data[signingCert], data[signingKey], err = makeCA(now, life); err != nil {
			return nil, false, err
		}
		delete(data, nextCert)
		delete(data, nextKey)
		return data, true, nil
	}
	left := current.cert.NotAfter.Sub(now)
	_, err = readPair(data[nextCert], data[nextKey])
	hasNext := err == nil
	switch {
	case left < overlap && hasNext:
		data[formerCert] = data[signingCert]
		data[signingCert], data[signingKey] = data[nextCert], data[nextKey]
		delete(data, nextCert)
		delete(data, nextKey)
		return data, true, nil
	case left < 2*overlap && !hasNext:
		if data[nextCert], data[nextKey], err = makeCA(now, life); err != nil {
			return nil, false, err
		}
		return data, true, nil
	}
	return data, false, nil
}

// bundle is who must be believed.
func bundle(data map[string][]byte, now time.Time) []byte {
	var all bytes.Buffer
	for _, key := range []string{signingCert, nextCert, formerCert} {
		if c, err := readCert(data[key]); err == nil && now.Before(c.NotAfter) {
			all.Write(encode("CERTIFICATE", c.Raw))
		}
	}
	return all.Bytes()
}

type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func readCert(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("there is no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

func readPair(cert, key []byte) (pair, error) {
	c, err := readCert(cert)
	if err != nil {
		return pair{}, err
	}
	block, _ := pem.Decode(key)
	if block == nil {
		return pair{}, errors.New("there is no key in PEM")
	}
	k, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return pair{}, err
	}
	if !k.PublicKey.Equal(c.PublicKey) {
		return pair{}, errors.New("the key is not the certificate's")
	}
	return pair{c, k}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func serial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("cannot make a serial number: %w", err)
	}
	return n, nil
}

func makeCA(now time.Time, life time.Duration) (cert, key []byte, err error) {
	number, err := serial()
	if err != nil {
		return nil, nil, err
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make the authority's key: %w", err)
	}
	// Two authorities must not have one name: who verifies looks them up by it.
	c := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "code-sandbox " + number.Text(36)[:8]},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life), KeyUsage: x509.KeyUsageCertSign,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make the authority's certificate: %w", err)
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot encode the authority's key: %w", err)
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", secret), nil
}

// sign makes a serving certificate for names, which are DNS names or IPs.
func sign(by pair, names []string, now time.Time, life time.Duration) (*tls.Certificate, error) {
	number, err := serial()
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	until := now.Add(life)
	if until.After(by.cert.NotAfter) {
		until = by.cert.NotAfter
	}
	c := &x509.Certificate{
		SerialNumber: number, NotBefore: now.Add(-backdate), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, fmt.Errorf("cannot make a certificate: %w", err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("cannot read the certificate just made: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: c}, nil
}
