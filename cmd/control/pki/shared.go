package pki

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Keys of the Secret. A cert-manager's Secret has the same ca.crt.
const (
	bundleKey = "ca.crt"
	keyKey    = "ca.key"
)

// readEvery is how often the Secret is looked at: a successor is served with
// well before it is the only one.
const readEvery = time.Minute

// Options says where the authority is kept.
type Options struct {
	Client    kubernetes.Interface
	Namespace string
	Secret    string // made when it is not there
	// Names are what the serving certificates are for.
	Names  []string
	Logger hclog.Logger
}

// Shared is an authority that all replicas of the control plane have in common.
type Shared struct {
	opts Options

	mu      sync.Mutex
	current *Authority
}

// NewShared reads the authority, or makes it.
func NewShared(ctx context.Context, o Options) (*Shared, error) {
	s := &Shared{opts: o}
	return s, s.refresh(ctx, time.Now())
}

// Authority is the one in force.
func (s *Shared) Authority() *Authority {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Serving serves with certificates of the authority in force.
func (s *Shared) Serving() *Serving {
	var signer *Authority
	return &Serving{next: func(now time.Time, had *leaf) (*leaf, error) {
		a := s.Authority()
		if had != nil && a == signer && now.Before(had.renew) {
			return had, nil
		}
		made, err := a.issue(now, leafLife, s.opts.Names)
		if err == nil {
			signer = a
		}
		return made, err
	}}
}

// Run follows the Secret until ctx ends, and makes a successor when it is time.
func (s *Shared) Run(ctx context.Context) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.refresh(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.opts.Logger.Warn("cannot look at the authority", "error", err)
		}
	}
}

// tries bounds how often replicas that make an authority at once get in each
// other's way.
const tries = 5

// refresh takes what the Secret holds; an authority that is missing or old is
// made and written. Of several replicas that do so at once one succeeds, and
// the others take its.
func (s *Shared) refresh(ctx context.Context, now time.Time) error {
	var err error
	for range tries {
		var again bool
		if again, err = s.once(ctx, now); !again {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("cannot keep an authority in the Secret %q of the namespace %q: %w", s.opts.Secret, s.opts.Namespace, err)
	}
	return nil
}

func (s *Shared) once(ctx context.Context, now time.Time) (again bool, err error) {
	secrets := s.opts.Client.CoreV1().Secrets(s.opts.Namespace)
	secret, err := secrets.Get(ctx, s.opts.Secret, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return false, err
	}
	if missing {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.opts.Secret, Namespace: s.opts.Namespace}}
	}
	empty := len(secret.Data[bundleKey]) == 0 && len(secret.Data[keyKey]) == 0
	if !empty {
		found, err := parseAuthority(secret.Data[bundleKey], secret.Data[keyKey])
		if err != nil {
			return false, fmt.Errorf("%w; delete the Secret to have a new one made", err)
		}
		if !found.old(now) {
			s.take(found)
			return false, nil
		}
	}
	made, err := newAuthority(now, secret.Data[bundleKey])
	if err != nil {
		return false, err
	}
	bundle, key, err := made.encode()
	if err != nil {
		return false, err
	}
	secret.Data = map[string][]byte{bundleKey: bundle, keyKey: key}
	if missing {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return true, errors.New("other replicas write it all the time")
	}
	if err == nil {
		s.opts.Logger.Info("made an authority", "secret", s.opts.Secret, "ends", made.cert.NotAfter.Format(time.RFC3339))
		s.take(made)
	}
	return false, err
}

// take puts the authority in force, unless it is the one that is.
func (s *Shared) take(a *Authority) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil || !bytes.Equal(s.current.bundle, a.bundle) {
		s.current = a
	}
}
