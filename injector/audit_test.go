package injector

import (
	"context"
	"errors"
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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
)

// living is a pod that runs in a namespace.
func living(namespace, name string, pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Name, pod.UID, pod.Namespace, pod.Status.Phase = name, types.UID(namespace+name), namespace, corev1.PodRunning
	return pod
}

func newAudit(t *testing.T, c Config, objects ...runtime.Object) (*audit, *fake.Clientset, *record.FakeRecorder) {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	kube, recorder := fake.NewClientset(objects...), record.NewFakeRecorder(20)
	return &audit{kube: kube, every: time.Hour, config: func() (Config, error) { return c, nil }, metrics: m, events: events{recorder},
		log: hclog.NewNullLogger()}, kube, recorder
}

// counts holds what the audit found, of all reasons, against what it should.
func (a *audit) counts(t *testing.T, want map[Reason]float64) {
	t.Helper()
	for _, r := range Reasons {
		if got := testutil.ToFloat64(a.metrics.audited.WithLabelValues(string(r))); got != want[r] {
			t.Errorf("%s is %v, not %v", r, got, want[r])
		}
	}
}

func TestAudit(t *testing.T) {
	c := hooked()
	ended := living("agents", "ended", agent(plain))
	ended.Status.Phase = corev1.PodSucceeded
	evil := injectedPod(t, c)
	container(evil, SidecarName).Image = "evil"
	earlier := injectedPod(t, c)
	earlier.Annotations[Prefix+keyTools] = "audit"
	// The namespace's policy is in a ConfigMap.
	inForce := injectedPod(t, c, Prefix+"tool-timeout", "17")
	delete(inForce.Annotations, Prefix+"tool-timeout")
	a, _, recorder := newAudit(t, c, enrolled(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: PolicyMap, Namespace: "agents"}, Data: map[string]string{"tool-timeout": "17"}},
		living("agents", "missed", agent(plain)), living("agents", "asked", agent(plain, KeyInject, "false")),
		living("agents", "host", agent(plain+"\nhostNetwork: true")), living("agents", "fine", inForce), living("agents", "earlier", earlier),
		living("agents", "forged", evil), living("agents", "named", agent(`{containers: [{name: main}], initContainers: [{name: code-sandbox-sidecar}]}`)),
		ended, living("other", "elsewhere", agent(plain)))
	for range 2 { // the second time there is nothing new to tell
		if err := a.once(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.counts(t, map[Reason]float64{Missed: 1, OptedOut: 1, HostNetwork: 1, Outdated: 1, ForeignSidecar: 1, NameTaken: 1})
	}
	close(recorder.Events)
	var said []string
	for e := range recorder.Events {
		said = append(said, strings.Join(strings.Fields(e)[1:3], " "))
	}
	slices.Sort(said)
	want := []string{"SandboxSidecarMissing foreign_sidecar:", "SandboxSidecarMissing host_network:", "SandboxSidecarMissing missed:", "SandboxSidecarMissing name_taken:"}
	if !slices.Equal(said, want) {
		t.Errorf("the Events are %q", said)
	}
}

// What is wrong with a pod, and whether anybody is told of it.
func TestInspect(t *testing.T) {
	f := func(pod *corev1.Pod, hookless bool, lacks Reason, tells bool) {
		t.Helper()
		if i := inspect(pod, enrolled(), hooked(), time.Now()); i.hookless != hookless || i.lacks.Reason != lacks || i.tells() != tells {
			t.Errorf("it is %+v, told: %v", i, i.tells())
		}
	}
	f(living("agents", "fine", injectedPod(t, hooked())), false, "", false)
	f(living("agents", "missed", agent(plain)), false, Missed, true)
	f(living("agents", "asked", agent(plain, KeyInject, "false")), false, OptedOut, false)
	f(unheard(t), true, "", true)
	// Both: the one is told of, the other is only counted.
	earlier := unheard(t)
	earlier.Annotations[Prefix+keyTools] = "audit"
	f(earlier, true, Outdated, true)
}

// A namespace that cannot be read keeps its own counts, and no other's: each
// failure is counted by its cause, and told.
func TestAuditFailures(t *testing.T) {
	second := enrolled()
	second.Name = "second"
	a, kube, recorder := newAudit(t, testConfig(), enrolled(), second, living("agents", "a", agent(plain)), living("second", "b", agent(plain)))
	if err := a.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.counts(t, map[Reason]float64{Missed: 2})
	failing, resource := "agents", "pods"
	kube.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetResource().Resource == resource && action.GetNamespace() == failing, nil, errors.New("no")
	})
	fails := func(says string, cause string, n float64) {
		t.Helper()
		if err := a.once(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v", err)
		}
		if got := testutil.ToFloat64(a.metrics.auditFailures.WithLabelValues(cause)); got != n {
			t.Errorf("%v failures are counted by %s", got, cause)
		}
	}
	if err := kube.Tracker().Add(living("second", "c", agent(plain))); err != nil {
		t.Fatal(err)
	}
	fails(`cannot audit the namespace "agents": cannot list its pods: no`, failPods, 1)
	a.counts(t, map[Reason]float64{Missed: 3})
	resource = "configmaps"
	fails(`cannot audit the namespace "agents": cannot read its policy: no`, failPods, 2)
	a.counts(t, map[Reason]float64{Missed: 3})
	failing, resource = "", "namespaces"
	fails("cannot list the enrolled namespaces: no", failNamespaces, 1)
	a.config = func() (Config, error) { return Config{}, errors.New("no authority") }
	fails("cannot audit: no authority", failAuthority, 1)
	a.counts(t, map[Reason]float64{Missed: 3})
	if n := len(recorder.Events); n != 3 {
		t.Errorf("there are %d Events", n)
	}
	// A namespace that is no longer enrolled is forgotten.
	a.config, resource = func() (Config, error) { return testConfig(), nil }, ""
	if err := kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("namespaces"), "", "second"); err != nil {
		t.Fatal(err)
	}
	if err := a.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.counts(t, map[Reason]float64{Missed: 1})
}

// The last good audit has a time, which a failed one leaves as it is.
func TestAuditIsTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, kube, _ := newAudit(t, testConfig(), enrolled())
		var broken atomic.Bool
		kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return broken.Load(), nil, errors.New("no") })
		at := func() float64 { return testutil.ToFloat64(a.metrics.auditedAt) }
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.run(ctx) })
		synctest.Wait()
		first := at()
		if want := float64(time.Now().Unix()); first != want {
			t.Errorf("the first was at %v, not %v", first, want)
		}
		broken.Store(true)
		time.Sleep(3*time.Hour + time.Minute)
		if at() != first || testutil.ToFloat64(a.metrics.audits.WithLabelValues("failed")) != 3 {
			t.Errorf("failed audits are counted as good: %v", at())
		}
		broken.Store(false)
		time.Sleep(time.Hour)
		if at() != first+4*3600 {
			t.Errorf("the last was %v after the first", at()-first)
		}
		stop()
		running.Wait()
	})
}
