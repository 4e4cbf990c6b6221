package kube

import (
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
)

// lane is what verifications of tokens are bounded by. A token that names a pod
// and comes from that pod's address has one of its own: what strangers show in its
// name, whom no signature keeps from it, takes nothing from the pod itself.
//
// The address of a connection cannot be forged. Where the network hides it, all
// callers are strangers, and share what is theirs.
type lane struct {
	name   string
	rate   *rate.Limiter
	places chan struct{}
}

func (c *Callers) laneOf(pod *resident, from netip.Addr) lane {
	if pod.at(from) {
		return lane{name: "own ", rate: pod.own, places: c.reviews}
	}
	return lane{name: "other ", rate: pod.strangers, places: c.strangers}
}

// waiters counts who waits for a pod to be seen, by address.
type waiters struct {
	mu   sync.Mutex
	all  int
	from map[netip.Addr]int
}

// enter takes a place, which leave gives back; false when there is none.
func (w *waiters) enter(from netip.Addr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= waitersAtOnce || w.from[from] >= waitersOfOne {
		return false
	}
	w.all++
	w.from[from]++
	return true
}

func (w *waiters) leave(from netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.from[from]--; w.from[from] == 0 {
		delete(w.from, from)
	}
}
