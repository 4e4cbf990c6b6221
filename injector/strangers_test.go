package injector

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// believing is a webhook's configuration with that caBundle, and a store that has it.
func believing(t *testing.T, pem string) (*admissionregistrationv1.MutatingWebhookConfiguration, cache.Store) {
	t.Helper()
	w, store := webhook(), cache.NewStore(cache.MetaNamespaceKeyFunc)
	for i := range w.Webhooks {
		w.Webhooks[i].ClientConfig.CABundle = []byte(pem)
	}
	if err := store.Add(w); err != nil {
		t.Fatal(err)
	}
	return w, store
}

// Replicas of before an upgrade and those after it may know different authorities:
// each leaves the other's for a while, so that the API server reaches both. What
// nobody has written anew by then goes.
func TestStrangersStayForAWhile(t *testing.T) {
	kube := fake.NewClientset()
	var before, after shared
	before.put(ca("A"))
	after.put(ca("B"))
	old, young := before.join().bundle(t, kube), after.join().bundle(t, kube)
	old.grace, young.grace = time.Minute, time.Minute
	w, now := webhook(), time.Now()
	f := func(b *bundle, at time.Duration, want string) {
		t.Helper()
		got := b.whom(w, now.Add(at))
		if string(got) != want {
			t.Errorf("after %v it shall have %q", at, got)
		}
		for i := range w.Webhooks {
			w.Webhooks[i].ClientConfig.CABundle = got
		}
	}
	a, b := string(ca("A")), string(ca("B"))
	f(old, 0, a)
	f(young, 0, b+a)
	f(old, 10*time.Second, a+b)
	f(young, 59*time.Second, b+a)
	f(old, 69*time.Second, a+b)
	// The old one has gone.
	f(young, 70*time.Second, b)
	f(young, 80*time.Second, b)
	// It has not: from here both have a minute again.
	f(old, 90*time.Second, a+b)
	f(young, 100*time.Second, b+a)
	f(young, 159*time.Second, b+a)
	f(young, 160*time.Second, b)
	// A replica without an authority says nothing of anybody's.
	before.put(nil)
	if err := old.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := old.whom(w, now); got != nil {
		t.Errorf("it shall have %q", got)
	}
}

// A certificate that a replica does not know may be of what they share, read by
// another after it: it reads that anew at once, and again until it can; then no more.
func TestStrangersAreLookedUp(t *testing.T) {
	kube := fake.NewClientset()
	var s shared
	s.put(ca("A"))
	m := s.join()
	b := m.bundle(t, kube)
	b.grace = time.Minute
	away, refresh := errors.New("away"), b.refresh
	f := func(has string, refresh func(context.Context) error, want error, reads int32) {
		t.Helper()
		b.refresh = refresh
		_, store := believing(t, has)
		if err := b.sync(t.Context(), store); !errors.Is(err, want) {
			t.Errorf("it ends with %v", err)
		}
		if n := m.reads.Load(); n != reads || !b.written.Load() {
			t.Errorf("it has read %d times; the webhook believes us: %v", n, b.written.Load())
		}
	}
	both := string(ca("A")) + string(ca("B"))
	s.put([]byte(both))
	f(both, func(context.Context) error { return away }, away, 0)
	f(both, refresh, nil, 1)
	if known := string(*m.known.Load()); known != both {
		t.Errorf("it knows %q", known)
	}
	f(both, refresh, nil, 1)
	f(both+string(ca("C")), refresh, nil, 2)
	f(both+string(ca("C")), refresh, nil, 2)
	for _, action := range kube.Actions() {
		t.Errorf("it has done %v", action)
	}
}

// One that was taken out and is back is somebody who is there, also when the replica
// has not seen the webhook without it.
func TestStrangersThatComeBack(t *testing.T) {
	both := string(ca("A")) + string(ca("B"))
	w, _ := believing(t, both)
	kube := fake.NewClientset(w)
	var s shared
	s.put(ca("A"))
	b := s.join().bundle(t, kube)
	b.grace = time.Minute
	old, _ := certificates(string(ca("B")))
	for der := range old {
		b.strangers[der] = time.Now().Add(-2 * time.Minute)
	}
	if err := b.write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	patched := false
	for _, action := range kube.Actions() {
		patched = patched || action.Matches("patch", "mutatingwebhookconfigurations")
	}
	if got := string(b.whom(w, time.Now())); got != both || !patched {
		t.Errorf("it was taken out: %v; then it shall have %q", patched, got)
	}
}

// An authority in a file of somebody's may end without a newline.
func TestStrangersBesideAFileWithoutNewline(t *testing.T) {
	var s shared
	s.put([]byte(strings.TrimSpace(string(ca("A")))))
	b := s.join().bundle(t, fake.NewClientset())
	b.grace = time.Minute
	w, _ := believing(t, string(ca("B"))+string(ca("C")))
	got := string(b.whom(w, time.Now()))
	if !same(got, string(ca("A"))+string(ca("B"))+string(ca("C"))) {
		t.Errorf("it shall have %q", got)
	}
}

// Without an authority of ours nobody is said to believe us.
func TestNobodyBelievesNoAuthority(t *testing.T) {
	var s shared
	s.put(nil)
	b := s.join().bundle(t, fake.NewClientset())
	w, _ := believing(t, string(ca("B")))
	if err := b.write(t.Context(), w); err != nil || b.written.Load() {
		t.Errorf("it ends with %v; the webhook believes us: %v", err, b.written.Load())
	}
}

// A replica of before an upgrade and one after it, which share nothing, stand in
// the webhook together for as long as both are there, and a minute longer.
func TestReplicasThatShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset(webhook())
		var before, after shared
		before.put(ca("A"))
		after.put(ca("B"))
		var running sync.WaitGroup
		run := func(s *shared) (stop func()) {
			b := s.join().bundle(t, kube)
			b.grace = strangerGrace
			ctx, cancel := context.WithCancel(t.Context())
			running.Go(func() { b.run(ctx) })
			return cancel
		}
		has := func(want string) {
			t.Helper()
			synctest.Wait()
			w, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "code-sandbox", metav1.GetOptions{})
			if err != nil || !same(string(w.Webhooks[0].ClientConfig.CABundle), want) || !same(string(w.Webhooks[1].ClientConfig.CABundle), want) {
				t.Fatalf("the webhook has %q and %q: %v", w.Webhooks[0].ClientConfig.CABundle, w.Webhooks[1].ClientConfig.CABundle, err)
			}
		}
		a, both := string(ca("A")), string(ca("A"))+string(ca("B"))
		old := run(&before)
		time.Sleep(2 * bundleEvery)
		has(a)
		young := run(&after)
		time.Sleep(2 * bundleEvery)
		for range int(3 * strangerGrace / time.Second) {
			has(both)
			time.Sleep(time.Second)
		}
		old()
		synctest.Wait()
		has(both)
		time.Sleep(strangerGrace + 2*bundleEvery)
		has(string(ca("B")))
		young()
		running.Wait()
	})
}
