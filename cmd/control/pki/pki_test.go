package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

const day = 24 * time.Hour

func replica(t *testing.T, client kubernetes.Interface, change ...func(*Options)) *Authority {
	t.Helper()
	o := Options{Client: client, Namespace: "ns", Name: "ca", Names: []string{"pool.test", "10.0.0.1"}, Logger: hclog.NewNullLogger()}
	for _, f := range change {
		f(&o)
	}
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

type source interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// handshake is a real one, of somebody who believes the bundle.
func handshake(s source, believed []byte, name string) error {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	// A pipe holds nothing: a refusal meets the rest of the server's words.
	_ = here.SetDeadline(time.Now().Add(3 * time.Second))
	served := make(chan error, 1)
	go func() {
		served <- tls.Server(there, &tls.Config{GetCertificate: s.GetCertificate, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true}).Handshake()
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(believed)
	err := tls.Client(here, &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS13}).Handshake()
	_ = here.Close()
	return errors.Join(err, ignoreClosed(err, <-served))
}

// ignoreClosed leaves out what the server says of a client that refused it.
func ignoreClosed(client, server error) error {
	if client != nil {
		return nil
	}
	return server
}

// Replicas that start at once agree on one authority, whoever writes first.
func TestReplicasAgree(t *testing.T) {
	client := fake.NewClientset()
	var mu sync.Mutex
	failures := 2
	client.PrependReactor("create", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if failures--; failures >= 0 {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "ca", errors.New("by the test"))
		}
		return false, nil, nil
	})
	all := make([]*Authority, 8)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = replica(t, client) })
	}
	wg.Wait()
	for _, a := range all {
		if !bytes.Equal(a.Bundle(), all[0].Bundle()) {
			t.Fatal("two authorities")
		}
		if err := handshake(a, all[0].Bundle(), "pool.test"); err != nil {
			t.Error(err)
		}
	}
	if handshake(all[0], all[0].Bundle(), "other.test") == nil {
		t.Error("the certificate is good for another name")
	}
	if err := handshake(all[0], all[0].Bundle(), "10.0.0.1"); err != nil {
		t.Error(err)
	}
}

// A year and more of days: whoever fetched the bundle within the overlap
// believes whatever is served, and certificates and authorities do change.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := replica(t, fake.NewClientset(), func(o *Options) { o.AuthorityLife, o.SyncEvery = 100*day, 6*time.Hour })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.Run(ctx) })
		held := a.Bundle() // fetched every nine days: less than the overlap of ten
		authorities, certificates := map[string]bool{}, map[string]bool{}
		for d := range 400 {
			time.Sleep(day + time.Second)
			if d%9 == 0 {
				held = a.Bundle()
			}
			if err := handshake(a, held, "pool.test"); err != nil {
				t.Fatalf("day %d: %v", d, err)
			}
			c, _ := a.GetCertificate(nil)
			authorities[c.Leaf.Issuer.CommonName] = true
			certificates[c.Leaf.SerialNumber.String()] = true
		}
		if len(authorities) < 4 || len(authorities) > 6 || len(certificates) < 400 {
			t.Errorf("%d authorities, %d certificates", len(authorities), len(certificates))
		}
		cancel()
		running.Wait()
	})
}

// While the API server is away certificates go on being renewed; an authority
// that ended meanwhile is followed by a new one.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var away atomic.Bool
		client.PrependReactor("*", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
			if away.Load() {
				return true, nil, errors.New("away")
			}
			return false, nil, nil
		})
		a := replica(t, client, func(o *Options) { o.AuthorityLife, o.SyncEvery = 10*day, 10*time.Minute })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.Run(ctx) })
		old := a.Bundle()
		away.Store(true)
		time.Sleep(5 * day)
		if err := handshake(a, old, "pool.test"); err != nil {
			t.Error(err)
		}
		time.Sleep(6 * day)
		if handshake(a, old, "pool.test") == nil {
			t.Error("an authority that is over is believed")
		}
		away.Store(false)
		time.Sleep(20 * time.Minute)
		if err := handshake(a, a.Bundle(), "pool.test"); err != nil {
			t.Error(err)
		}
		cancel()
		running.Wait()
	})
}

// Handshakes go on while certificates are replaced under them.
func TestRotationUnderLoad(t *testing.T) {
	a := replica(t, fake.NewClientset())
	bundle := a.Bundle()
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := handshake(a, bundle, "pool.test"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 50 {
		c, err := sign(mustPair(t, a), a.opts.Names, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		a.serving.Store(c)
		time.Sleep(2 * time.Millisecond)
	}
	close(stop)
	load.Wait()
}

func mustPair(t *testing.T, a *Authority) pair {
	t.Helper()
	p, err := readPair((*a.data.Load())[signingCert], (*a.data.Load())[signingKey])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A Secret that somebody broke is told of, and not replaced: others may sign
// with what was in it.
func TestBroken(t *testing.T) {
	s := &corev1.Secret{Data: map[string][]byte{signingCert: []byte("nonsense")}}
	s.Namespace, s.Name = "ns", "ca"
	_, err := New(t.Context(), Options{Client: fake.NewClientset(s), Namespace: "ns", Name: "ca", Names: []string{"n"}, Logger: hclog.NewNullLogger()})
	if err == nil {
		t.Error("no error")
	}
}

func TestFiles(t *testing.T) {
	a := replica(t, fake.NewClientset())
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	lay := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issue := func() (certificate, secret []byte) {
		t.Helper()
		c, err := sign(mustPair(t, a), a.opts.Names, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		return encode("CERTIFICATE", c.Certificate[0]), encode("PRIVATE KEY", der)
	}
	if _, err := NewFiles(cert, key, hclog.NewNullLogger()); err == nil {
		t.Error("no files, and no error")
	}
	c, k := issue()
	lay(cert, c)
	lay(key, k)
	f, err := NewFiles(cert, key, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		t.Helper()
		f.looked = time.Time{} // as a second later
		if err := handshake(f, a.Bundle(), "pool.test"); err != nil {
			t.Fatal(err)
		}
		return f.serving.Leaf.SerialNumber.String()
	}
	first := serial()
	// Half of the new pair, then all of it.
	c, k = issue()
	lay(cert, c)
	if serial() != first {
		t.Error("half of a pair is used")
	}
	lay(key, k)
	if serial() == first {
		t.Error("the new pair is not used")
	}
}
