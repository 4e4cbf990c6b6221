package pki

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// lookEvery is how often files are looked at, at most.
const lookEvery = time.Second

// Files is a certificate that somebody else keeps in files, such as
// cert-manager. A change is seen at a handshake.
type Files struct {
	cert, key string
	log       hclog.Logger

	mu      sync.Mutex
	looked  time.Time
	times   [2]time.Time
	serving *tls.Certificate
}

// NewFiles reads both files; they must fit.
func NewFiles(cert, key string, log hclog.Logger) (*Files, error) {
	f := &Files{cert: cert, key: key, log: log}
	return f, f.look()
}

// GetCertificate is for tls.Config. New files that do not fit, as while only one
// of the two was written, leave the certificate of before.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.looked) >= lookEvery {
		f.looked = now
		if err := f.look(); err != nil {
			f.log.Error("cannot read the new certificate", "error", err)
		}
	}
	return f.serving, nil
}

func (f *Files) look() error {
	var times [2]time.Time
	for i, path := range []string{f.cert, f.key} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("cannot read the certificate: %w", err)
		}
		times[i] = info.ModTime()
	}
	if f.serving != nil && times == f.times {
		return nil
	}
	c, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("cannot read the certificate in %q and %q: %w", f.cert, f.key, err)
	}
	f.serving, f.times = &c, times
	return nil
}
