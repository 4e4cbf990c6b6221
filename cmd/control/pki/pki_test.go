package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
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

// Whoever asks for a refresh while another waits for a slow API server waits no
// longer than it wants to.
func TestRefreshIsBounded(t *testing.T) {
	client := fake.NewClientset()
	a := replica(t, client)
	reading, release := make(chan struct{}, 2), make(chan struct{})
	client.PrependReactor("get", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
		reading <- struct{}{}
		<-release
		return false, nil, nil
	})
	var slow sync.WaitGroup
	slow.Go(func() {
		if err := a.Refresh(t.Context()); err != nil {
			t.Errorf("the first refresh: %v", err)
		}
	})
	defer slow.Wait()
	defer close(release)
	<-reading
	over, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan error, 1)
	slow.Go(func() { ended <- a.Refresh(over) })
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits on")
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

// P11: a life that was set short is short, and every moment of it is covered.
func TestShortLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := replica(t, fake.NewClientset(), func(o *Options) { o.CertificateLife = 30 * time.Second })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.Run(ctx) })
		held, certificates := a.Bundle(), map[string]bool{}
		for second := range 300 {
			time.Sleep(time.Second)
			if err := handshake(a, held, "pool.test"); err != nil {
				t.Fatalf("second %d: %v", second, err)
			}
			c, _ := a.GetCertificate(nil)
			if left := time.Until(c.Leaf.NotAfter); left > 30*time.Second {
				t.Fatalf("second %d: the certificate is good for %s", second, left)
			}
			certificates[c.Leaf.SerialNumber.String()] = true
		}
		if len(certificates) < 10 {
			t.Errorf("%d certificates", len(certificates))
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
