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
// and those that did. All that are not over are believed.
const (
	signingCert, signingKey = "ca.crt", "ca.key"
	nextCert, nextKey       = "next.crt", "next.key"
	formerCert              = "former.crt"
)

// backdate allows for clocks that differ.
const backdate = 5 * time.Minute

// plan says what the Secret must hold now: one step at a time.
func plan(held, known map[string][]byte, now time.Time, life time.Duration) (data map[string][]byte, changed bool, err error) {
	current, unread := readPair(held[signingCert], held[signingKey])
	if unread != nil && len(held[signingCert]) > 0 {
		return nil, false, fmt.Errorf("cannot read the authority: %w; when the data of its Secret is emptied a new one is made", unread)
	}
	if unread != nil || !now.Before(current.cert.NotAfter) {
		data, err = begin(held, known, now, life)
		return data, true, err
	}
	_, noNext := readPair(held[nextCert], held[nextKey])
	left, overlap := current.cert.NotAfter.Sub(now), life/10
	switch {
	case forgets(held, known, now):
		return remind(held, known, now), true, nil
	case left < overlap && noNext == nil:
		return promote(held, now), true, nil
	case left < 2*overlap && noNext != nil:
		data, err = announce(held, now, life)
		return data, true, err
	}
	return held, false, nil
}

// begin makes a new authority that signs at once, where there is none, as in a
// Secret that was emptied, or it is over. What this replica has known goes on to
// be believed, since others serve with it until they look.
func begin(held, known map[string][]byte, now time.Time, life time.Duration) (map[string][]byte, error) {
	cert, key, err := makeCA(now, life)
	if err != nil {
		return nil, err
	}
	return with(held, map[string][]byte{signingCert: cert, signingKey: key, nextCert: nil, nextKey: nil,
		formerCert: alive(now, held[formerCert], bundle(known, now))}), nil
}

// forgets says whether the Secret lacks whom this replica has believed, under an
// authority that it sees for the first time: one that had just started, and knew of
// nobody, began it. What is gone under one that was seen, somebody took away.
func forgets(held, known map[string][]byte, now time.Time) bool {
	here, there := bundle(known, now), bundle(held, now)
	seen := len(alive(now, here, held[signingCert])) == len(here)
	return !seen && len(alive(now, there, here)) > len(there)
}

// remind writes down who else was believed before the authority that is there.
func remind(held, known map[string][]byte, now time.Time) map[string][]byte {
	return with(held, map[string][]byte{formerCert: alive(now, held[formerCert], bundle(known, now))})
}

// announce makes the next authority. It is there a good while before it signs: so
// all who believe have it by then.
func announce(held map[string][]byte, now time.Time, life time.Duration) (map[string][]byte, error) {
	cert, key, err := makeCA(now, life)
	if err != nil {
		return nil, err
	}
	return with(held, map[string][]byte{nextCert: cert, nextKey: key}), nil
}

// promote lets the next authority sign.
func promote(held map[string][]byte, now time.Time) map[string][]byte {
	return with(held, map[string][]byte{signingCert: held[nextCert], signingKey: held[nextKey], nextCert: nil, nextKey: nil,
		formerCert: alive(now, held[signingCert], held[formerCert])})
}

// with is the Secret's data after a change; what has become empty is left out.
func with(held, change map[string][]byte) map[string][]byte {
	data := map[string][]byte{}
	maps.Copy(data, held)
	maps.Copy(data, change)
	maps.DeleteFunc(data, func(_ string, value []byte) bool { return len(value) == 0 })
	return data
}

// bundle is who must be believed.
func bundle(data map[string][]byte, now time.Time) []byte {
	return alive(now, data[signingCert], data[nextCert], data[formerCert])
}

// alive are the certificates of all lists that are not over, each once.
func alive(now time.Time, lists ...[]byte) []byte {
	var all bytes.Buffer
	for _, rest := range lists {
		for {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			one := encode("CERTIFICATE", block.Bytes)
			if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) && !bytes.Contains(all.Bytes(), one) {
				all.Write(one)
			}
		}
	}
	return all.Bytes()
}

// believed says whether a certificate is of one of the authorities.
func believed(authorities []byte, c *x509.Certificate) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	// When it was made it was good: it is renewed long before it ends.
	_, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: c.NotBefore})
	return err == nil
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
