package pki

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/kubernetes/fake"
)

// mounted is a Secret as the kubelet mounts it: each state is a folder of its
// own, and a link says which one counts.
type mounted struct {
	folder string
	states int
}

func (m *mounted) options(names ...string) FilesOptions {
	at := func(key string) string { return filepath.Join(m.folder, "..data", key) }
	return FilesOptions{Cert: at("tls.crt"), Key: at("tls.key"), CA: at("ca.crt"), Names: names, Logger: hclog.NewNullLogger()}
}

func (m *mounted) lay(t *testing.T, secret map[string][]byte) {
	t.Helper()
	m.states++
	state := filepath.Join(m.folder, strings.Repeat("x", m.states))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(state, 0o700))
	for key, content := range secret {
		must(os.WriteFile(filepath.Join(state, key), content, 0o600))
	}
	link := filepath.Join(m.folder, "new")
	must(os.Symlink(state, link))
	must(os.Rename(link, filepath.Join(m.folder, "..data")))
}

// issue is what somebody's authority gives out.
func issue(t *testing.T, by *Authority, names ...string) map[string][]byte {
	t.Helper()
	c, err := sign(mustPair(t, by), names, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": encode("CERTIFICATE", c.Certificate[0]), "tls.key": encode("PRIVATE KEY", der), "ca.crt": by.Bundle()}
}

// A Secret that somebody else renews, certificate and authority, is followed
// without a restart; one that does not fit changes nothing.
func TestFilesAreFollowed(t *testing.T) {
	first, second := replica(t, fake.NewClientset()), replica(t, fake.NewClientset())
	m := &mounted{folder: t.TempDir()}
	m.lay(t, issue(t, first, "pool.test"))
	f, err := NewFiles(m.options("pool.test"))
	if err != nil {
		t.Fatal(err)
	}
	served := func(by *Authority) string {
		t.Helper()
		f.looked = time.Time{} // as a second later
		if !bytes.Equal(f.Bundle(), by.Bundle()) {
			t.Errorf("the bundle is %s", f.Bundle())
		}
		if err := handshake(f, by.Bundle(), "pool.test"); err != nil {
			t.Error(err)
		}
		return f.serving.Leaf.SerialNumber.String()
	}
	before := served(first)
	// A new certificate of the same authority.
	m.lay(t, issue(t, first, "pool.test"))
	renewed := served(first)
	if renewed == before {
		t.Error("the new certificate is not used")
	}
	// One for another name, one of somebody who is not in ca.crt, half of a pair, nothing.
	m.lay(t, issue(t, first, "other.test"))
	stranger := issue(t, second, "pool.test")
	stranger["ca.crt"] = first.Bundle()
	half := issue(t, first, "pool.test")
	half["tls.key"] = issue(t, first, "pool.test")["tls.key"]
	for _, unfit := range []map[string][]byte{issue(t, first, "other.test"), stranger, half, {}} {
		m.lay(t, unfit)
		if served(first) != renewed {
			t.Error("a certificate is used that does not fit")
		}
	}
	// Another authority.
	m.lay(t, issue(t, second, "pool.test"))
	if served(second) == renewed {
		t.Error("the certificate of the new authority is not used")
	}
}

// Whatever else is written in ca.crt, those that are over and one that is there twice:
// who must be believed is told in certificates alone.
func TestFilesBundleIsCertificatesAlone(t *testing.T) {
	a := replica(t, fake.NewClientset())
	over, _, err := makeCA(time.Now().Add(-time.Hour), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	secret := issue(t, a, "pool.test")
	written := [][]byte{[]byte("Ours:"), over, []byte("Yours:"), bytes.TrimSpace(a.Bundle()), a.Bundle(), []byte("No others.")}
	secret["ca.crt"] = bytes.Join(written, []byte("\n"))
	m := &mounted{folder: t.TempDir()}
	m.lay(t, secret)
	f, err := NewFiles(m.options("pool.test"))
	if err != nil {
		t.Fatal(err)
	}
	if want := slices.Concat(over, a.Bundle()); !bytes.Equal(f.Bundle(), want) {
		t.Errorf("the bundle is %s", f.Bundle())
	}
}

// What nobody would believe is refused at the start, in words.
func TestFilesThatDoNotFit(t *testing.T) {
	a := replica(t, fake.NewClientset())
	f := func(says string, change func(map[string][]byte)) {
		t.Helper()
		secret := issue(t, a, "pool.test")
		change(secret)
		m := &mounted{folder: t.TempDir()}
		m.lay(t, secret)
		if _, err := NewFiles(m.options("pool.test")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v", err)
		}
	}
	// A key is missing, or the authority.
	f("cannot read the certificate", func(s map[string][]byte) { delete(s, "tls.key") })
	f("cannot read the certificate", func(s map[string][]byte) { delete(s, "ca.crt") })
	f("there is no certificate in PEM in", func(s map[string][]byte) { s["ca.crt"] = []byte("nonsense") })
	// The key of another certificate.
	f("private key does not match", func(s map[string][]byte) { s["tls.key"] = issue(t, a, "pool.test")["tls.key"] })
	// For somebody else, or by somebody else.
	f(`is not for "pool.test"`, func(s map[string][]byte) {
		other := issue(t, a, "other.test")
		s["tls.crt"], s["tls.key"] = other["tls.crt"], other["tls.key"]
	})
	f("is not signed by one of", func(s map[string][]byte) { s["ca.crt"] = replica(t, fake.NewClientset()).Bundle() })
	// Over.
	f("expired", func(s map[string][]byte) {
		c, err := sign(mustPair(t, a), []string{"pool.test"}, time.Now().Add(-48*time.Hour), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		s["tls.crt"], s["tls.key"] = encode("CERTIFICATE", c.Certificate[0]), encode("PRIVATE KEY", der)
	})
}
