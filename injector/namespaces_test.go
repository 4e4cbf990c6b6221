package injector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// A namespace's annotations stand over its ConfigMap, key by key.
func TestPolicyOfNamespaces(t *testing.T) {
	ns := enrolled()
	ns.Annotations = map[string]string{Prefix + "tools": "audit", "other": "x"}
	got := withPolicy(ns, map[string]string{"tools": "off", "first-party": "ours"})
	want := map[string]string{Prefix + "tools": "audit", Prefix + "first-party": "ours", "other": "x"}
	if !maps.Equal(got.Annotations, want) || len(ns.Annotations) != 2 {
		t.Errorf("the annotations are %v, and were %v", got.Annotations, ns.Annotations)
	}
}

// world is a directory whose watch has seen some objects, and an API server that
// has others.
type world struct {
	*directory
	kube *fake.Clientset
	log  bytes.Buffer
}

func newWorld(t *testing.T, watch, server []runtime.Object) *world {
	t.Helper()
	namespaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	policies := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, o := range watch {
		into := namespaces
		if _, ok := o.(*corev1.ConfigMap); ok {
			into = policies
		}
		if err := into.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{kube: fake.NewClientset(server...)}
	w.directory = newDirectory(w.kube, corelisters.NewNamespaceLister(namespaces), corelisters.NewConfigMapLister(policies), m,
		hclog.New(&hclog.LoggerOptions{Output: &w.log, Level: hclog.Warn}))
	return w
}

// asked are the reads of the API server, by what was read.
func (w *world) asked() (all []string) {
	for _, a := range w.kube.Actions() {
		all = append(all, a.GetVerb()+" "+a.GetResource().Resource)
	}
	return all
}

// Where the watch says that a namespace is not enrolled or has no policy, the API
// server has the word: a pod that comes right after is not let by in silence.
func TestWatchIsBehind(t *testing.T) {
	bare := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "agents"}}
	policy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: PolicyMap, Namespace: "agents"}, Data: map[string]string{"tools": "audit"}}
	all := func(o ...runtime.Object) []runtime.Object { return o }
	f := func(watch, server []runtime.Object, fresh, enrolledNow bool, tools string, asked []string, warns ...string) {
		t.Helper()
		w := newWorld(t, watch, server)
		ns, err := w.get(t.Context(), "agents", fresh)
		if err != nil {
			t.Fatal(err)
		}
		if enrolls(ns) != enrolledNow || ns.Annotations[Prefix+keyTools] != tools || !slices.Equal(w.asked(), asked) {
			t.Errorf("enrolled: %v, tools %q, asked %q", enrolls(ns), ns.Annotations[Prefix+keyTools], w.asked())
		}
		if strings.Count(w.log.String(), "[WARN]") != len(warns) {
			t.Errorf("the log is %s", &w.log)
		}
		for _, object := range warns {
			if !strings.Contains(w.log.String(), "object="+object+" namespace=agents") || testutil.ToFloat64(w.metrics.lookups.WithLabelValues(object, lookupLagged)) != 1 {
				t.Errorf("the log is %s", &w.log)
			}
		}
	}
	one, other := "get namespaces", "get configmaps"
	// The watch knows all.
	f(all(enrolled(), policy), nil, false, true, "audit", nil)
	// Enrolled a moment ago; with a policy; before the watch has the namespace.
	f(all(bare), all(enrolled()), false, true, "", []string{one, other}, objectNamespace)
	f(all(bare), all(enrolled(), policy), false, true, "audit", []string{one, other}, objectNamespace, objectPolicy)
	f(nil, all(enrolled(), policy), false, true, "audit", []string{one, other}, objectNamespace, objectPolicy)
	f(all(bare, policy), all(enrolled(), policy), false, true, "audit", []string{one}, objectNamespace)
	// The policy alone.
	f(all(enrolled()), all(enrolled(), policy), false, true, "audit", []string{other}, objectPolicy)
	f(all(enrolled()), all(enrolled()), false, true, "", []string{other})
	// It is not enrolled indeed: its policy is of no matter.
	f(all(bare), all(bare, policy), false, false, "", []string{one})
	// Nothing is believed.
	f(all(enrolled(), policy), all(enrolled(), policy), true, true, "audit", []string{one, other})
	f(all(enrolled(), policy), all(bare), true, false, "", []string{one})
}

// Who makes names up drains the questions about names that nobody knows, and no
// others: a pod of a namespace that the watch knows is still answered.
func TestStrangersTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, []runtime.Object{enrolled()}, []runtime.Object{enrolled()})
		began := time.Now()
		for i := range strangerBurst + 1 {
			if _, err := w.get(t.Context(), fmt.Sprintf("made-up-%d", i), false); !apierrors.IsNotFound(err) {
				t.Errorf("a name that nobody has is answered with %v", err)
			}
		}
		if took := time.Since(began); took != time.Second/strangerRate {
			t.Errorf("one above the burst is answered after %v", took)
		}
		began = time.Now()
		for range lookupBurst / 2 { // two questions each
			if ns, err := w.get(t.Context(), "agents", true); err != nil || !enrolls(ns) {
				t.Errorf("a pod is not answered: %v", err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("pods had to wait %v", took)
		}
	})
}

// Without an answer there is no decision: the API server refuses the pod.
func TestLookupFails(t *testing.T) {
	for resource, object := range map[string]string{"namespaces": objectNamespace, "configmaps": objectPolicy} {
		w := newWorld(t, nil, []runtime.Object{enrolled()})
		w.kube.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") })
		h, _ := newHandler(t)
		h.namespace = w.get
		got := post(h, review(t, agent(plain), nil))
		if want := "cannot ask the API server for its " + object + ": away"; got.Code != 503 || !strings.Contains(got.Body.String(), want) {
			t.Errorf("the answer is %d %s", got.Code, got.Body)
		}
		if testutil.ToFloat64(w.metrics.lookups.WithLabelValues(object, lookupFailed)) != 1 || testutil.ToFloat64(h.metrics.failures.WithLabelValues(failNamespace)) != 1 {
			t.Error("it was not counted")
		}
	}
}

// A pod that was injected under a policy which the watch has not seen yet is held
// against the one of this moment before it is refused.
func TestPolicyOfThisMoment(t *testing.T) {
	now := enrolled()
	now.Annotations = map[string]string{Prefix + keyTools: "audit"}
	w := newWorld(t, []runtime.Object{enrolled()}, []runtime.Object{now})
	pod := agent(plain)
	pod = apply(t, pod, consider(pod, now, testConfig()).patch)
	h, _ := newHandler(t)
	h.namespace = w.get
	_, a, fail := h.consider(t.Context(), "agents", pod)
	if fail != nil || a.verdict.Reason != AlreadyInjected {
		t.Errorf("the answer is %+v, %+v", a, fail)
	}
	pod.Annotations[KeyPolicy] = "{}"
	if _, a, fail = h.consider(t.Context(), "agents", pod); fail != nil || a.verdict.Reason != ForeignSidecar {
		t.Errorf("the answer is %+v, %+v", a, fail)
	}
}

// Lookups are bounded in rate; who waits for the same one shares it, and nobody
// gets an answer that is older than the question.
func TestLookupIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		l := newLookup(rate.NewLimiter(10, 1), func(context.Context, string) (time.Time, error) {
			reads.Add(1)
			began := time.Now()
			time.Sleep(10 * time.Millisecond)
			return began, nil
		})
		var all sync.WaitGroup
		for i := range 1000 { // within a second
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				asked := time.Now()
				if read, err := l.of(t.Context(), "a"); err != nil || read.Before(asked) {
					t.Errorf("asked at %v, read at %v: %v", asked, read, err)
				}
			})
		}
		all.Wait()
		if n := reads.Load(); n < 10 || n > 12 {
			t.Errorf("there were %d reads", n)
		}
	})
}

// Who would wait too long is told at once; one that hangs does not hang for ever.
func TestLookupEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := rate.NewLimiter(rate.Every(time.Hour), 1)
		l := newLookup(limit, func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		began := time.Now()
		if _, err := l.of(t.Context(), "a"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != lookupBound {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		began = time.Now()
		if _, err := l.of(t.Context(), "a"); err == nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if len(l.waiting) != 0 {
			t.Errorf("%d wait", len(l.waiting))
		}
	})
}

// All that is asked about a pod has one bound, not each question: here each takes
// 0.9 s, and a pod that has to be looked at twice would need five of them.
func TestConsiderationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context) error {
			select {
			case <-time.After(900 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		w := newWorld(t, nil, nil)
		for _, l := range []*lookup[*corev1.Namespace]{w.namespace, w.stranger} {
			l.get = func(ctx context.Context, _ string) (*corev1.Namespace, error) { return enrolled(), slow(ctx) }
		}
		w.policy.get = func(ctx context.Context, _ string) (*corev1.ConfigMap, error) { return nil, slow(ctx) }
		h, _ := newHandler(t)
		h.namespace, h.refresh = w.get, sharedRefresh(slow)
		f := func(pod *corev1.Pod, took time.Duration, cause string) {
			t.Helper()
			began := time.Now()
			_, a, fail := h.consider(t.Context(), "agents", pod)
			if is := time.Since(began); is != took {
				t.Errorf("it took %v", is)
			}
			if cause == "" && (fail != nil || a.result != injected) || cause != "" && (fail == nil || fail.cause != cause || fail.status != 503) {
				t.Errorf("the answer is %+v, %+v", a, fail)
			}
		}
		f(agent(plain), 1800*time.Millisecond, "")
		forged := injectedPod(t, testConfig())
		container(forged, SidecarName).Image = "evil"
		f(forged, lookupBound, failNamespace)
	})
}
