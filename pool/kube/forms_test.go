package kube

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/pool"
)

func testForms(t testing.TB) *forms {
	t.Helper()
	f, err := newForms(testPods().withDefaults(), testID.replica)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var otherID = identity{name: "sb-other", replica: testID.replica, secret: "another secret"}

// A pod made from a form is the one that would be made without, each time and
// for each sandbox.
func TestForms(t *testing.T) {
	kept := testForms(t)
	f := func(a *agent, template pool.Template) {
		t.Helper()
		for _, id := range []identity{testID, otherID, testID} {
			want := podFor(kept.pods, template, id)
			if a != nil {
				want = copyPodFor(kept.pods, a, template, id)
			}
			got := kept.pod(a, template, id)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("of %q:\n got %+v\nwant %+v", id.name, got, want)
			}
		}
	}
	f(nil, testTemplate())
	more := testTemplate()
	more.Preload = []string{"numpy"}
	f(nil, more)
	a := testAgent(t, nil)
	f(a, copyTemplate(a))
	// The same pod on another node, and the same name with another uid.
	f(testAgent(t, func(p *corev1.Pod) { p.Spec.NodeName = "node-2" }), copyTemplate(a))
	again := testAgent(t, func(p *corev1.Pod) { p.UID = "uid-2" })
	f(again, copyTemplate(again))
	if kept.known.Len() != 4 {
		t.Errorf("%d forms are kept, of four templates", kept.known.Len())
	}
}

// However many templates there are, so many forms are kept and no more.
func TestFormsAreBounded(t *testing.T) {
	kept := testForms(t)
	for i := range maxForms + 10 {
		template := testTemplate()
		template.Preload = []string{fmt.Sprintf("module%d", i)}
		kept.pod(nil, template, testID)
	}
	if kept.known.Len() != maxForms {
		t.Errorf("%d forms are kept, with a bound of %d", kept.known.Len(), maxForms)
	}
}

// A form outlives what its copies do not depend on, and nothing else.
func TestFormsOfAgents(t *testing.T) {
	inTown(t, func(o *town) {
		start := func() (*corev1.Pod, *corev1.Pod) {
			t.Helper()
			template, err := o.template(testProgram())
			if err != nil {
				t.Fatal(err)
			}
			asked, _, err := o.driver.podOf(o.Context(), template, testID)
			if err != nil {
				t.Fatal(err)
			}
			kept, ok := o.driver.forms.known.Get(template.Key())
			if !ok {
				t.Fatal("no form is kept")
			}
			return kept.pod, asked
		}
		first, _ := start()
		o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Status.Message = "2", "nothing to a copy" })
		if second, _ := start(); second != first {
			t.Error("a form was made anew for what is nothing to a copy")
		}
		o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Spec.NodeName = "3", "node-2" })
		third, asked := start()
		if third == first {
			t.Error("a form outlived its agent's move")
		}
		terms := asked.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if got := terms[0].Preference.MatchFields[0].Values; !reflect.DeepEqual(got, []string{"node-2"}) {
			t.Errorf("the copy prefers %q", got)
		}
		o.change(func(p *corev1.Pod) {
			p.ResourceVersion, p.Status.ContainerStatuses[0].ImageID = "4", "registry.example/app@sha256:"+fmt.Sprintf("%064d", 4)
		})
		if _, asked = start(); asked.Spec.Containers[0].Image != "registry.example/app@sha256:"+fmt.Sprintf("%064d", 4) {
			t.Errorf("the copy's image is %q", asked.Spec.Containers[0].Image)
		}
	})
}

// BenchmarkPod is what a start spends on a copy's pod, from its form and without.
func BenchmarkPod(b *testing.B) {
	kept := testForms(b)
	a, err := agentOf(agentPod(), "app")
	if err != nil {
		b.Fatal(err)
	}
	template := copyTemplate(a)
	b.Run("form", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			kept.pod(a, template, testID)
		}
	})
	b.Run("anew", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			copyPodFor(kept.pods, a, template, testID)
		}
	})
}

// BenchmarkKeptPod is what the driver keeps of each warm sandbox's pod, as the
// watch brings it: its memory grows by that.
func BenchmarkKeptPod(b *testing.B) {
	p := podFor(testPods().withDefaults(), testTemplate(), testID)
	p.UID, p.Status = "8b3cb3f4-4f0c-4f5a-9d1d-3d1b8b0c9d11", agentPod().Status
	raw, err := p.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	kept := make([]*corev1.Pod, 0, 1000)
	before := heap()
	for range cap(kept) {
		got := &corev1.Pod{}
		if err := got.Unmarshal(raw); err != nil {
			b.Fatal(err)
		}
		kept = append(kept, got)
	}
	b.ReportMetric(float64(heap()-before)/float64(len(kept)), "B/pod")
	runtime.KeepAlive(kept)
}
