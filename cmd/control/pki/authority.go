package pki

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Options configures an Authority. A field that is zero has the default named
// with it.
type Options struct {
	Client          kubernetes.Interface
	Namespace, Name string   // of the Secret that the replicas share
	Names           []string // that certificates are for
	// AuthorityLife is 10 years, CertificateLife 24 hours. SyncEvery (1 minute, or
	// a sixth of a life that is shorter) is how often the Secret is looked at.
	AuthorityLife, CertificateLife, SyncEvery time.Duration
	Logger                                    hclog.Logger
}

// Authority is the shared authority, and the certificate that this replica
// serves with. Make one with New and run it with Run.
type Authority struct {
	opts    Options
	syncing *semaphore.Weighted // of one, since who waits for it may be in a hurry
	data    atomic.Pointer[map[string][]byte]
	serving atomic.Pointer[tls.Certificate]
}

// conflicts bounds the attempts of replicas that write at the same time.
const conflicts = 10

// New reads the Secret, or makes it, and makes a certificate.
func New(ctx context.Context, o Options) (*Authority, error) {
	if o.Client == nil || o.Namespace == "" || o.Name == "" || len(o.Names) == 0 || o.Logger == nil {
		return nil, errors.New("cannot make an authority without a Client, a Namespace, a Name, Names and a Logger")
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.AuthorityLife, 10 * 365 * 24 * time.Hour}, {&o.CertificateLife, 24 * time.Hour}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.SyncEvery == 0 {
		o.SyncEvery = min(time.Minute, o.CertificateLife/6)
	}
	a := &Authority{opts: o, syncing: semaphore.NewWeighted(1)}
	return a, a.Refresh(ctx)
}

// Bundle is the certificates, in PEM, that whoever calls must believe.
func (a *Authority) Bundle() []byte { return bundle(*a.data.Load(), time.Now()) }

// GetCertificate is for tls.Config.
func (a *Authority) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return a.serving.Load(), nil
}

// Run keeps authority and certificate current until ctx ends. While the API
// server cannot be reached the authority that is known goes on to be used.
func (a *Authority) Run(ctx context.Context) {
	tick := time.NewTicker(a.opts.SyncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := a.Refresh(ctx); err != nil && ctx.Err() == nil {
			a.opts.Logger.Error("cannot look at the authority", "error", err)
			if err := a.renew(time.Now()); err != nil {
				a.opts.Logger.Error("cannot renew the certificate", "error", err)
			}
		}
	}
}

// Refresh brings the Secret to what it must hold, and bundle and certificate
// after it. Run does so from time to time.
func (a *Authority) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := a.syncing.Acquire(ctx, 1)
	if err != nil {
		return fmt.Errorf("cannot wait for the refresh before: %w", err)
	}
	defer a.syncing.Release(1)
	for range conflicts {
		var data map[string][]byte
		if data, err = a.settle(ctx, time.Now()); err == nil {
			a.data.Store(&data)
			return a.renew(time.Now())
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	return fmt.Errorf("cannot agree on the authority in the Secret %q: %w", a.opts.Namespace+"/"+a.opts.Name, err)
}

// settle reads, plans and writes once. A conflict means that another replica
// was first; what it wrote is as good.
func (a *Authority) settle(ctx context.Context, now time.Time) (map[string][]byte, error) {
	secrets := a.opts.Client.CoreV1().Secrets(a.opts.Namespace)
	secret, err := secrets.Get(ctx, a.opts.Name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return nil, err
	}
	if missing {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.opts.Namespace, Name: a.opts.Name}, Type: corev1.SecretTypeOpaque}
	}
	var known map[string][]byte
	if before := a.data.Load(); before != nil {
		known = *before
	}
	data, changed, err := plan(secret.Data, known, now, a.opts.AuthorityLife)
	if err != nil || !changed {
		return data, err
	}
	secret = secret.DeepCopy()
	secret.Data = data
	if missing {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("there is none, and this account may not make one: helm upgrade makes it, empty: %w", err)
		}
	} else {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err == nil {
		a.opts.Logger.Info("authority changed", "secret", a.opts.Name)
	}
	return data, err
}

// renew makes a certificate when two thirds of the last one's life are over, or
// it is not of an authority that is believed. One of a former authority serves
// on: not everybody who calls has heard of the new one.
func (a *Authority) renew(now time.Time) error {
	if c := a.serving.Load(); c != nil && believed(a.Bundle(), c.Leaf) {
		life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
		if now.Before(c.Leaf.NotBefore.Add(life * 2 / 3)) {
			return nil
		}
	}
	data := *a.data.Load()
	by, err := readPair(data[signingCert], data[signingKey])
	if err != nil {
		return fmt.Errorf("cannot read the authority: %w", err)
	}
	c, err := sign(by, a.opts.Names, now, a.opts.CertificateLife)
	if err != nil {
		return err
	}
	a.serving.Store(c)
	a.opts.Logger.Info("certificate renewed", "until", c.Leaf.NotAfter)
	return nil
}
