package injector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// ca is an authority of a name, in PEM.
func ca(name string) []byte {
	return fmt.Appendf(nil, "-----BEGIN CERTIFICATE-----\n%s\n-----END CERTIFICATE-----\n", strings.Repeat(name, 4))
}

// shared is what replicas share: each knows what it has read last.
type shared struct{ held atomic.Pointer[[]byte] }

// member is a replica's view of it.
type member struct {
	of    *shared
	known atomic.Pointer[[]byte]
	reads atomic.Int32
}

func (s *shared) put(ca []byte) { s.held.Store(&ca) }

func (s *shared) join() *member {
	m := &member{of: s}
	m.known.Store(s.held.Load())
	return m
}

func (m *member) refresh(context.Context) error {
	m.reads.Add(1)
	m.known.Store(m.of.held.Load())
	return nil
}

func (m *member) bundle(t *testing.T, kube kubernetes.Interface) *bundle {
	t.Helper()
	all, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	b := newBundle(Options{Kube: kube, Webhook: "code-sandbox", CA: func() []byte { return *m.known.Load() }, Refresh: m.refresh,
		Logger: hclog.NewNullLogger()}, all)
	// Strangers have a test of their own.
	b.grace = 0
	return b
}

func TestPatchOf(t *testing.T) {
	f := func(has []string, ca string, want int) {
		t.Helper()
		w := webhook()
		for i, h := range has {
			w.Webhooks[i].ClientConfig.CABundle = []byte(h)
		}
		patch := patchOf(w, []byte(ca))
		if len(patch.Webhooks) != want || patch.Metadata.ResourceVersion != w.ResourceVersion {
			t.Errorf("the patch is %+v", patch)
		}
	}
	a, b := string(ca("A")), string(ca("B"))
	// Both are missing, one, none.
	f([]string{"", ""}, a, 2)
	f([]string{a, b}, a, 1)
	f([]string{a, a}, a, 0)
	// The order is all the same; one too many or too few is not.
	f([]string{b + a, a + b}, a+b, 0)
	f([]string{a, a + b}, a+b, 1)
	f([]string{a + b, a}, a, 1)
	f([]string{a + "more", a}, a, 1)
	// No authority: what is there stays.
	f([]string{b, b}, "", 0)
}

func TestBelieves(t *testing.T) {
	f := func(has string, ca []byte, want bool) {
		t.Helper()
		w := webhook()
		w.Webhooks[0].ClientConfig.CABundle, w.Webhooks[1].ClientConfig.CABundle = []byte(has), []byte(has)
		if got := believes(w, ca); got != want {
			t.Errorf("%q believes %q: %v", has, ca, got)
		}
	}
	a, both := string(ca("A")), string(ca("A"))+string(ca("B"))
	f(a, ca("A"), true)
	f(both, ca("A"), true)
	f(both, []byte(both), true)
	f(a, ca("B"), false)
	f(a, []byte(both), false)
	f("", ca("A"), false)
	f(a, nil, false)
}

// A write that is refused is tried again, until it is made; meanwhile the replica
// does not say that it is ready.
func TestBundleRetries(t *testing.T) {
	kube := fake.NewClientset(webhook())
	var refused atomic.Int32
	kube.PrependReactor("patch", "mutatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused.Add(1) == 1, nil, errors.New("refused")
	})
	var s shared
	s.put(ca("A"))
	b := s.join().bundle(t, kube)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.run(ctx) })
	eventually(t, "it is written", func() error {
		if !b.written.Load() {
			return errors.New("it is not")
		}
		return nil
	})
	stop()
	running.Wait()
	if testutil.ToFloat64(b.metrics.bundles.WithLabelValues("failed")) != 1 || testutil.ToFloat64(b.metrics.bundles.WithLabelValues("ok")) < 1 {
		t.Error("the writes were not counted")
	}
}

// What somebody else has written meanwhile is no failure, and is looked at again.
func TestBundleConflicts(t *testing.T) { synctest.Test(t, bundleConflicts) }

func bundleConflicts(t *testing.T) {
	seen := webhook()
	seen.ResourceVersion = "7"
	url := "https://pool.example/"
	seen.Webhooks[0].ClientConfig.URL = &url
	kube := fake.NewClientset(seen)
	var tried, conflicting atomic.Int32
	conflicting.Store(1)
	kube.PrependReactor("patch", "mutatingwebhookconfigurations", func(action clienttesting.Action) (bool, runtime.Object, error) {
		what := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}
		patch := action.(clienttesting.PatchAction)
		// The API server makes a conflict of this, and nothing else, when that is not its version.
		if patch.GetPatchType() != types.StrategicMergePatchType || !strings.Contains(string(patch.GetPatch()), `"metadata":{"resourceVersion":"7"}`) {
			t.Errorf("the patch, a %s, is %s", patch.GetPatchType(), patch.GetPatch())
		}
		return tried.Add(1) <= conflicting.Load(), nil, apierrors.NewConflict(what, "code-sandbox", errors.New("it was modified"))
	})
	var s shared
	s.put(ca("A"))
	b := s.join().bundle(t, kube)
	var said strings.Builder
	b.log = hclog.New(&hclog.LoggerOptions{Output: &said, Level: hclog.Info})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.run(ctx) })
	time.Sleep(2 * bundleEvery)
	synctest.Wait()
	stop()
	running.Wait()
	for result, want := range map[string]float64{"conflict": 1, "failed": 0, "ok": 1} {
		if n := testutil.ToFloat64(b.metrics.bundles.WithLabelValues(result)); n != want {
			t.Errorf("%s: %v", result, n)
		}
	}
	if !b.written.Load() || strings.Contains(said.String(), "[ERROR]") {
		t.Errorf("it has written: %v, and said %q", b.written.Load(), said.String())
	}
	now, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "code-sandbox", metav1.GetOptions{})
	if err != nil || len(now.Webhooks) != len(seen.Webhooks) || now.Webhooks[0].ClientConfig.URL == nil {
		t.Errorf("the webhooks are %+v: %v", now.Webhooks, err)
	}
	// Somebody who is always faster is told of.
	conflicting.Store(1000)
	for range bundleBurst {
		if err := b.write(t.Context(), seen); err != nil {
			t.Errorf("the error is %v", err)
		}
		time.Sleep(bundleEvery)
	}
	if err := b.write(t.Context(), seen); err == nil || !strings.Contains(err.Error(), "leave its caBundle to the injector") {
		t.Errorf("the error is %v", err)
	}
}

// Two replicas, of which one has not looked at what they share for a while, agree:
// it reads that anew before it writes over the other's, and then finds nothing to
// write.
func TestReplicasAgreeOnTheBundle(t *testing.T) { synctest.Test(t, replicasAgree) }

func replicasAgree(t *testing.T) {
	kube := fake.NewClientset(webhook())
	var s shared
	s.put(ca("A"))
	ahead, behind := s.join(), s.join()
	bundles := []*bundle{ahead.bundle(t, kube), behind.bundle(t, kube)}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, b := range bundles {
		running.Go(func() { b.run(ctx) })
	}
	has := func(want []byte) {
		t.Helper()
		// What the fake API server does not tell of is seen when they look again: what
		// is written between a list and the watch after it.
		time.Sleep(2 * bundleEvery)
		synctest.Wait()
		w, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "code-sandbox", metav1.GetOptions{})
		if err != nil || !bytes.Equal(w.Webhooks[1].ClientConfig.CABundle, want) {
			t.Errorf("the webhook has %q: %v", w.Webhooks[1].ClientConfig.CABundle, err)
		}
	}
	written := func() (all [2]float64) {
		for i, b := range bundles {
			all[i] = testutil.ToFloat64(b.metrics.bundles.WithLabelValues("ok")) + testutil.ToFloat64(b.metrics.bundles.WithLabelValues("failed"))
		}
		return all
	}
	has(ca("A"))
	before := written()
	// One makes a new authority and writes it; the other is told of the change.
	s.put(ca("B"))
	if err := ahead.refresh(ctx); err != nil {
		t.Fatal(err)
	}
	has(ca("B"))
	if now := written(); now != [2]float64{before[0] + 1, before[1]} {
		t.Errorf("they had written %v times and have %v times", before, now)
	}
	for i, b := range bundles {
		if !b.written.Load() {
			t.Errorf("replica %d does not know that it is right", i)
		}
	}
	if !bytes.Equal(*behind.known.Load(), ca("B")) {
		t.Error("the other has not read it")
	}
	stop()
	running.Wait()
}

// What they share cannot be read: nothing is written over what may be newer. And
// with somebody who always writes something else there is no endless fight.
func TestBundleHoldsBack(t *testing.T) {
	kube := fake.NewClientset(webhook())
	var s shared
	s.put(ca("A"))
	b := s.join().bundle(t, kube)
	seen := webhook()
	seen.Webhooks[0].ClientConfig.CABundle = ca("B")
	b.refresh = func(context.Context) error { return errors.New("away") }
	if err := b.write(t.Context(), seen); err == nil || !strings.Contains(err.Error(), "cannot read anew the authority that replicas share: away") {
		t.Errorf("the error is %v", err)
	}
	for _, action := range kube.Actions() {
		t.Errorf("it has done %v", action)
	}
	b.refresh = func(context.Context) error { return nil }
	var err error
	writes := 0
	for range 20 {
		fresh, gone := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "code-sandbox", metav1.GetOptions{})
		if gone != nil {
			t.Fatal(gone)
		}
		fresh.Webhooks = []admissionregistrationv1.MutatingWebhook{{Name: "a"}, {Name: "b"}}
		if err = b.write(t.Context(), fresh); err == nil {
			writes++
		}
	}
	if writes != bundleBurst || err == nil || !strings.Contains(err.Error(), "leave its caBundle to the injector") {
		t.Errorf("it has written %d times: %v", writes, err)
	}
}
