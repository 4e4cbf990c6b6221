package kube

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sightings is what one replica knows of the others' signs of life. Clocks of
// two machines are never compared: what counts is how long, by our own clock, a
// Lease has stood unchanged, or a replica has had none.
type sightings struct {
	bound  time.Duration // for replicas whose Lease says nothing
	leases map[string]sighting
}

type sighting struct {
	renewed metav1.MicroTime // as the Lease says
	since   time.Time        // when we first saw it say so
	bound   time.Duration
	pods    bool // the replica has pods
}

func newSightings(bound time.Duration) *sightings {
	return &sightings{bound: bound, leases: map[string]sighting{}}
}

// look takes note of the Leases and pods there are, and returns what is to be
// removed: pods of replicas that are dead, and Leases of dead replicas that
// have no pods left. own is never dead.
func (s *sightings) look(pods []*corev1.Pod, leases []coordinationv1.Lease, own string, now time.Time) (orphans []*corev1.Pod, stale []coordinationv1.Lease) {
	seen := map[string]sighting{}
	note := func(replica string, renewed metav1.MicroTime, bound time.Duration) {
		was, known := s.leases[replica]
		if !known || !was.renewed.Equal(&renewed) {
			was.since = now
		}
		seen[replica] = sighting{renewed: renewed, since: was.since, bound: bound}
	}
	for _, l := range leases {
		note(l.Labels[LabelReplica], renewalOf(l), s.boundOf(l))
	}
	for _, p := range pods {
		replica := p.Labels[LabelReplica]
		if _, has := seen[replica]; !has {
			note(replica, metav1.MicroTime{}, s.bound)
		}
		mark := seen[replica]
		mark.pods = true
		seen[replica] = mark
	}
	s.leases = seen
	dead := func(replica string) bool {
		mark := seen[replica]
		return replica != own && replica != "" && now.Sub(mark.since) > mark.bound
	}
	for _, p := range pods {
		if dead(p.Labels[LabelReplica]) && p.DeletionTimestamp == nil {
			orphans = append(orphans, p)
		}
	}
	for _, l := range leases {
		if replica := l.Labels[LabelReplica]; dead(replica) && !seen[replica].pods {
			stale = append(stale, l)
		}
	}
	return orphans, stale
}

func renewalOf(l coordinationv1.Lease) metav1.MicroTime {
	if l.Spec.RenewTime == nil {
		return metav1.MicroTime{}
	}
	return *l.Spec.RenewTime
}

// boundOf is how long the Lease's own replica promised to be silent at most.
func (s *sightings) boundOf(l coordinationv1.Lease) time.Duration {
	if l.Spec.LeaseDurationSeconds == nil {
		return s.bound
	}
	return time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
}
