package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// lookEvery is how often files are looked at, at most.
const lookEvery = time.Second

// FilesOptions says which files hold a certificate, and what it must be good for.
type FilesOptions struct {
	Cert, Key string
	// CA (none) is the file with whoever must be believed, in PEM: the
	// certificate must be signed by one of them.
	CA string
	// Names are DNS names that the certificate must be for.
	Names  []string
	Logger hclog.Logger
}

// Files is a certificate that somebody else keeps in files, such as
// cert-manager. A change is seen at a handshake, or when the bundle is asked for.
type Files struct {
	opts FilesOptions

	mu      sync.Mutex
	looked  time.Time
	held    [3][]byte // certificate, key and authority as they are in use
	serving *tls.Certificate
	bundle  []byte
}

// NewFiles reads the files; they must fit.
func NewFiles(o FilesOptions) (*Files, error) {
	f := &Files{opts: o}
	return f, f.look()
}

// GetCertificate is for tls.Config. New files that do not fit, as while only one
// of them was written, leave the certificate of before.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh()
	return f.serving, nil
}

// Bundle is the certificates, in PEM, that whoever calls must believe; nil without
// a CA.
func (f *Files) Bundle() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh()
	return f.bundle
}

// Refresh looks at the files now, however short ago that was done.
func (f *Files) Refresh(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = time.Now()
	return f.look()
}

func (f *Files) refresh() {
	now := time.Now()
	if now.Sub(f.looked) < lookEvery {
		return
	}
	f.looked = now
	if err := f.look(); err != nil {
		f.opts.Logger.Error("cannot use the new certificate", "error", err)
	}
}

// look reads the files; what they hold counts, not their times, which two writes
// within some milliseconds share.
func (f *Files) look() error {
	var held [3][]byte
	for i, path := range []string{f.opts.Cert, f.opts.Key, f.opts.CA} {
		if path == "" {
			continue
		}
		var err error
		if held[i], err = os.ReadFile(path); err != nil {
			return fmt.Errorf("cannot read the certificate: %w", err)
		}
	}
	if f.serving != nil && slices.EqualFunc(held[:], f.held[:], bytes.Equal) {
		return nil
	}
	c, err := tls.X509KeyPair(held[0], held[1])
	if err != nil {
		return fmt.Errorf("cannot read the certificate in %q and %q: %w", f.opts.Cert, f.opts.Key, err)
	}
	if err := f.fits(c, held[2]); err != nil {
		return err
	}
	// Without what else is written there, since it goes on to places that take nothing
	// else, and with those that are over, so that all replicas say the same.
	f.serving, f.bundle, f.held = &c, alive(time.Time{}, held[2]), held
	return nil
}

// fits says whether those who believe the bundle will believe the certificate,
// under all names it is asked for by.
func (f *Files) fits(c tls.Certificate, bundle []byte) error {
	for _, name := range f.opts.Names {
		if err := c.Leaf.VerifyHostname(name); err != nil {
			return fmt.Errorf("the certificate in %q is not for %q: %w", f.opts.Cert, name, err)
		}
	}
	if f.opts.CA == "" {
		return nil
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return fmt.Errorf("cannot read who signed the certificate: there is no certificate in PEM in %q", f.opts.CA)
	}
	for _, der := range c.Certificate[1:] {
		if one, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(one)
		}
	}
	if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return fmt.Errorf("the certificate in %q is not signed by one of %q: %w", f.opts.Cert, f.opts.CA, err)
	}
	return nil
}
