package kube

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/code-sandbox/code-sandbox/pool"
)

func rosterPod(namespace string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sb-1", UID: uid}}
}

// told are the events that a watch has.
func told(events <-chan pool.Event) (all []pool.Event) {
	for {
		select {
		case e := <-events:
			all = append(all, e)
		default:
			return all
		}
	}
}

// A pod with the name of a sandbox of another namespace is another pod: neither
// its news nor its end is the sandbox's, and it can be destroyed apart.
func TestRosterOfTwoNamespaces(t *testing.T) {
	r := newRoster()
	ours := r.expect("sb-1", "runs")
	r.created(ours, "uid-1")
	r.seen(rosterPod("runs", "uid-1"))
	if !r.adopt(ours, &sandbox{}) {
		t.Fatal("the sandbox was not adopted")
	}
	events, err := r.watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	forged := rosterPod("agents", "uid-2")
	forged.Status.Phase = corev1.PodFailed // news of an end
	r.seen(forged)
	if v := r.look(ours); v.gone || v.pod.UID != "uid-1" || r.get("sb-1") != ours {
		t.Errorf("the sandbox is %+v", v)
	}
	if e := r.get("agents/sb-1"); e == nil || e.uid != "uid-2" || e.name.Namespace != "agents" {
		t.Errorf("the other is %+v", e)
	}
	r.deleted(forged)
	if r.look(ours).gone || r.get("sb-1") != ours || r.get("agents/sb-1") != nil {
		t.Error("the end of the other was taken for the sandbox's")
	}
	if got := told(events); !slices.Equal(got, []pool.Event{{ID: "sb-1"}, {ID: "agents/sb-1"}}) {
		t.Errorf("told: %+v", got)
	}
	if s, uid := r.doom(ours); s == nil || uid != "uid-1" {
		t.Errorf("it would be destroyed as %q", uid)
	}
}

// Of two pods of one name, one after the other, the later is not the earlier.
func TestRosterOfTwoUIDs(t *testing.T) {
	r := newRoster()
	first := r.expect("sb-1", "runs")
	r.created(first, "uid-1")
	r.seen(rosterPod("runs", "uid-1"))
	r.adopt(first, &sandbox{})
	events, err := r.watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.seen(rosterPod("runs", "uid-2"))
	if !r.look(first).gone || first.uid != "uid-1" {
		t.Errorf("the earlier is %+v", first)
	}
	second := r.get("sb-1")
	if second == nil || second == first || second.uid != "uid-2" || second.sandbox != nil {
		t.Errorf("the later is %+v", second)
	}
	r.deleted(rosterPod("runs", "uid-1")) // late news
	if r.get("sb-1") != second || r.look(second).gone {
		t.Error("the end of the earlier was taken for the later's")
	}
	if got := told(events); !slices.Equal(got, []pool.Event{{ID: "sb-1"}, {ID: "sb-1", Gone: true, Cause: "its pod was deleted"}, {ID: "sb-1"}}) {
		t.Errorf("told: %+v", got)
	}
}
