package pki

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// change is somebody's, by hand.
func change(t *testing.T, client kubernetes.Interface, f func(*corev1.Secret)) {
	t.Helper()
	secrets := client.CoreV1().Secrets("ns")
	s, err := secrets.Get(t.Context(), "ca", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f(s)
	if _, err := secrets.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func refresh(t *testing.T, all ...*Authority) {
	t.Helper()
	for _, r := range all {
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A Secret that was emptied has a new authority, and those that were known are
// believed until they are over: no handshake fails, whoever has looked. Without
// them in the Secret they are believed no longer.
func TestEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		life := func(o *Options) { o.AuthorityLife = 100 * day }
		a, late := replica(t, client, life), replica(t, client, life)
		served := func(by *Authority, believes []byte, want bool) {
			t.Helper()
			if err := handshake(by, believes, "pool.test"); (err == nil) != want {
				t.Errorf("believed: %v, not %v", err, want)
			}
		}
		first := a.Bundle()
		for range 2 { // twice: those before the last are believed too
			time.Sleep(time.Hour)
			change(t, client, func(s *corev1.Secret) { s.Data = nil })
			refresh(t, a)
			served(a, a.Bundle(), true)
			served(late, a.Bundle(), true)
			served(a, late.Bundle(), true)
			refresh(t, late)
			if !bytes.Equal(a.Bundle(), late.Bundle()) {
				t.Error("two authorities")
			}
		}
		if n := bytes.Count(a.Bundle(), []byte("BEGIN")); n != 3 || !bytes.Contains(a.Bundle(), first) {
			t.Errorf("%d authorities are believed", n)
		}
		// One that starts now serves with the newest, and believes the same.
		fresh := replica(t, client, life)
		served(fresh, a.Bundle(), true)
		served(fresh, first, false)
		// Somebody ends it at once: what is served is of the newest.
		change(t, client, func(s *corev1.Secret) { delete(s.Data, formerCert) })
		refresh(t, a)
		served(a, a.Bundle(), true)
		served(a, first, false)
		if n := bytes.Count(a.Bundle(), []byte("BEGIN")); n != 1 {
			t.Errorf("%d authorities are believed", n)
		}
		// One that is over is believed no longer.
		change(t, client, func(s *corev1.Secret) { s.Data = nil })
		time.Sleep(101 * day)
		refresh(t, a)
		if n := bytes.Count(a.Bundle(), []byte("BEGIN")); n != 1 {
			t.Errorf("%d authorities are believed", n)
		}
	})
}

// A replica that starts right after the Secret was emptied knows of no authority
// before the one that it makes: one that does writes it down, once. So those that
// run go on to be believed, until somebody ends that.
func TestEmptiedBeforeAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		old := replica(t, client)
		before := old.Bundle()
		change(t, client, func(s *corev1.Secret) { s.Data = nil })
		fresh := replica(t, client)
		begun := fresh.Bundle()
		if bytes.Contains(begun, before) || bytes.Count(begun, []byte("BEGIN")) != 1 {
			t.Fatal("the one that starts knows of one before")
		}
		f := func(served []byte, want ...[]byte) {
			t.Helper()
			refresh(t, old, fresh, old)
			for _, r := range []*Authority{old, fresh} {
				if got := r.Bundle(); !bytes.Equal(got, bytes.Join(want, nil)) {
					t.Errorf("%d authorities are believed, or others, not %d", bytes.Count(got, []byte("BEGIN")), len(want))
				}
				if err := handshake(r, r.Bundle(), "pool.test"); err != nil {
					t.Error(err)
				}
			}
			// Who believes only this one still finds the replica that was there before.
			if err := handshake(old, served, "pool.test"); err != nil {
				t.Error(err)
			}
		}
		client.ClearActions()
		f(before, begun, before)
		f(before, begun, before)
		if n := updates(client); n != 1 {
			t.Errorf("it was written %d times", n)
		}
		// Its key has leaked: it is removed, and stays so.
		change(t, client, func(s *corev1.Secret) { delete(s.Data, formerCert) })
		f(begun, begun)
		if handshake(old, before, "pool.test") == nil {
			t.Error("what was removed still serves")
		}
	})
}

func updates(client *fake.Clientset) (n int) {
	for _, a := range client.Actions() {
		if a.Matches("update", "secrets") {
			n++
		}
	}
	return n
}

// A replica that was away while the next authority came and began to sign sees it
// for the first time, and writes nothing: the Secret names all that it knew.
func TestAwayWhileAuthoritiesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		life := func(o *Options) { o.AuthorityLife = 100 * day }
		away, here := replica(t, client, life), replica(t, client, life)
		for range 92 { // the first signs no longer, and is believed for eight days yet
			time.Sleep(day)
			refresh(t, here)
		}
		client.ClearActions()
		refresh(t, away)
		if n := updates(client); n != 0 {
			t.Errorf("it was written %d times", n)
		}
		if n := bytes.Count(away.Bundle(), []byte("BEGIN")); n != 2 || !bytes.Equal(away.Bundle(), here.Bundle()) {
			t.Errorf("%d authorities are believed", n)
		}
	})
}

// The chart's account may not make Secrets: what to do is told.
func TestSecretIsGone(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "ca", errors.New("by the test"))
	})
	_, err := New(t.Context(), Options{Client: client, Namespace: "ns", Name: "ca", Names: []string{"n"}, Logger: hclog.NewNullLogger()})
	if err == nil || !strings.Contains(err.Error(), `in the Secret "ns/ca": there is none, and this account may not make one: helm upgrade makes it, empty`) {
		t.Errorf("the error is %v", err)
	}
}

// A Secret that somebody broke is told of, and not replaced: others may sign
// with what was in it.
func TestBroken(t *testing.T) {
	s := &corev1.Secret{Data: map[string][]byte{signingCert: []byte("nonsense")}}
	s.Namespace, s.Name = "ns", "ca"
	_, err := New(t.Context(), Options{Client: fake.NewClientset(s), Namespace: "ns", Name: "ca", Names: []string{"n"}, Logger: hclog.NewNullLogger()})
	if err == nil || !strings.Contains(err.Error(), "when the data of its Secret is emptied a new one is made") {
		t.Errorf("the error is %v", err)
	}
}
