package kube

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Who is dead is told by our own clock alone, and never at the first look.
func TestSightings(t *testing.T) {
	const bound = 30 * time.Second
	s := newSightings(bound)
	now := time.Unix(1000, 0)
	renewed := metav1.NewMicroTime(time.Unix(99, 0)) // another machine's clock
	pods := []*corev1.Pod{}
	for _, replica := range []string{"own", "lives", "silent", "none", ""} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: replica, Labels: map[string]string{LabelReplica: replica}}})
	}
	lease := func(replica string, at metav1.MicroTime, seconds int32) coordinationv1.Lease {
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: replica, Labels: map[string]string{LabelReplica: replica}},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &at, LeaseDurationSeconds: &seconds},
		}
	}
	f := func(after time.Duration, leases []coordinationv1.Lease, orphans, stale []string) {
		t.Helper()
		now = now.Add(after)
		dead, old := s.look(pods, leases, "own", now)
		var deadNames, oldNames []string
		for _, p := range dead {
			deadNames = append(deadNames, p.Name)
		}
		for _, l := range old {
			oldNames = append(oldNames, l.Name)
		}
		if !slices.Equal(deadNames, orphans) || !slices.Equal(oldNames, stale) {
			t.Errorf("orphans %v, stale %v; want %v, %v", deadNames, oldNames, orphans, stale)
		}
	}
	lives := func(n int) coordinationv1.Lease {
		return lease("lives", metav1.NewMicroTime(time.Unix(int64(n), 0)), 30)
	}
	silent, patient := lease("silent", renewed, 30), lease("patient", renewed, 3600)
	// A first look condemns nobody, however old the time in a Lease is.
	f(0, []coordinationv1.Lease{lives(1), silent, patient}, nil, nil)
	// Nor does the bound itself.
	f(bound, []coordinationv1.Lease{lives(2), silent, patient}, nil, nil)
	// Beyond it: the silent one, and the one without any Lease. Never our own
	// pods, which have no Lease here, nor those that name nobody.
	f(time.Second, []coordinationv1.Lease{lives(3), silent, patient}, []string{"silent", "none"}, nil)
	// A sign of life, late: the clock starts anew.
	silent = lease("silent", metav1.NewMicroTime(time.Unix(100, 0)), 30)
	f(bound, []coordinationv1.Lease{lives(4), silent, patient}, []string{"none"}, nil)
	// Its Lease goes away only when its pods have.
	f(bound+time.Second, []coordinationv1.Lease{lives(5), silent, patient}, []string{"silent", "none"}, nil)
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p.Name == "silent" || p.Name == "none" })
	f(time.Second, []coordinationv1.Lease{lives(6), silent, patient}, nil, []string{"silent"})
}

// A replica that dies without a word loses its pods to another; one that lives
// keeps them, also when its Lease is taken away once.
func TestOrphans(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		alive, stopAlive := w.driver()
		defer stopAlive()
		lost, stopLost := w.driver()
		defer stopLost()
		kept := []string{w.start(d).ID(), w.start(alive).ID()}
		orphan := w.start(lost)
		leases := w.kube.CoordinationV1().Leases(testPods().Namespace)
		names := func() []string {
			list, err := leases.List(w.Context(), metav1.ListOptions{})
			if err != nil {
				w.Fatal(err)
			}
			var names []string
			for _, l := range list.Items {
				names = append(names, l.Labels[LabelReplica])
			}
			return names
		}
		if len(names()) != 3 {
			w.Errorf("leases of %v", names())
		}
		// As a machine that loses power: it says nothing any more.
		w.silence(lost.replica)
		if err := leases.Delete(w.Context(), "code-sandbox-"+alive.replica, metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		after(20 * time.Second)
		if got := w.pods(); len(got) != 3 {
			w.Errorf("pods are %v: destroyed before the lease has ended", got)
		}
		after(2 * time.Minute)
		got := w.pods()
		slices.Sort(got)
		slices.Sort(kept)
		if !slices.Equal(got, kept) {
			w.Errorf("pods are %v, want %v without %s", got, kept, orphan.ID())
		}
		got = names()
		slices.Sort(got)
		if want := []string{d.replica, alive.replica}; !slices.Contains(got, want[0]) || !slices.Contains(got, want[1]) || len(got) != 2 {
			w.Errorf("leases of %v, want %v", got, want)
		}
		synctest.Wait()
	})
}

// A clean stop gives the Lease up.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, end := w.driver()
		end()
		list, err := w.kube.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) > 0 {
			t.Errorf("left: %v, %v", list, err)
		}
	})
}
