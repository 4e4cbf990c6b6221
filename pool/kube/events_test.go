package kube

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// events are those that stand.
func (w *world) events() []corev1.Event {
	w.Helper()
	list, err := w.kube.CoreV1().Events(testPods().Namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return list.Items
}

// failStart starts a sandbox that cannot start.
func (w *world) failStart(d *Driver) {
	w.Helper()
	if s, err := d.Start(w.Context(), testTemplate()); err == nil {
		w.Fatalf("%s started", s.ID())
	}
	after(time.Second)
}

func noImage(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: containerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}},
	}}}
}

// An image that cannot be pulled is one Event, which counts, and a metric.
func TestOneEventForACause(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		w.schedule = noImage
		for range 6 {
			w.failStart(d)
			after(20 * time.Second)
		}
		found := w.events()
		if len(found) != 1 {
			t.Fatalf("there are %d Events: %v", len(found), found)
		}
		e := found[0]
		if e.Type != corev1.EventTypeWarning || e.Reason != eventReason || e.Count != 6 || e.InvolvedObject.Kind != "Pod" ||
			!strings.HasPrefix(e.Message, "image_pull: ") || !strings.Contains(e.Message, testTemplate().Image) || !e.LastTimestamp.After(e.FirstTimestamp.Time) {
			t.Errorf("the Event is %+v", e)
		}
		if n := testutil.ToFloat64(d.metrics.failures.WithLabelValues(reasonImage)); n != 6 {
			t.Errorf("%g failures are counted", n)
		}
		// Another cause is another Event.
		w.refuses("create", func(clienttesting.Action) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "sb", errors.New("exceeded quota: none"))
		})
		w.failStart(d)
		if found = w.events(); len(found) != 2 || !strings.Contains(found[0].Message+found[1].Message, "refused: ") {
			t.Errorf("there are the Events %v", found)
		}
	})
}

// Failures in quick succession are counted, and told together with the next.
func TestEventsAreFew(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		w.schedule = noImage
		for range 30 { // a second apart
			w.failStart(d)
		}
		wrote := 0
		for _, a := range w.kube.Actions() {
			if a.GetResource().Resource == "events" && a.GetVerb() != "list" {
				wrote++
			}
		}
		if found := w.events(); len(found) != 1 || wrote > 3 {
			t.Errorf("%d Events, written %d times", len(found), wrote)
		}
	})
}

// After a time without failures, the next one is news; so it is when the API
// server has forgotten the Event.
func TestEventsComeAgain(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		w.schedule = noImage
		w.failStart(d)
		after(quietBound + time.Second)
		w.failStart(d)
		found := w.events()
		if len(found) != 2 || found[0].Count != 1 || found[1].Count != 1 {
			t.Fatalf("there are the Events %v", found)
		}
		for _, e := range found {
			if err := w.kube.CoreV1().Events(e.Namespace).Delete(w.Context(), e.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		after(time.Minute)
		w.failStart(d)
		if found := w.events(); len(found) != 1 || found[0].Count != 2 {
			t.Errorf("there are the Events %v", found)
		}
	})
}

// An API server that takes no Events changes nothing else.
func TestEventsAreRefused(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		w.kube.PrependReactor("*", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("not allowed")
		})
		w.schedule = noImage
		w.failStart(d)
		w.schedule = nil
		if _, err := d.Start(w.Context(), testTemplate()); err != nil {
			t.Error(err)
		}
	})
}
