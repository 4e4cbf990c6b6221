package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/code-sandbox/code-sandbox/pool"
)

var errStopped = errors.New("cannot use the cluster: the driver has stopped")

// watchBuffer is how far a watcher may fall behind before its watch is broken
// off; it then watches again.
const watchBuffer = 1024

// entry is one pod of this replica. Its fields belong to the roster's lock.
type entry struct {
	id         string // of the sandbox: the pod's name, unless another has it in another namespace
	name       types.NamespacedName
	uid        types.UID   // empty until the API server has answered
	pod        *corev1.Pod // as last seen; nil before the watch has reported it
	gone       bool        // the pod is deleted, to the watch or to a request
	destroying bool
	sandbox    *sandbox      // nil until the start has succeeded
	told       bool          // watchers know it
	lost       bool          // watchers know that it is gone
	changed    chan struct{} // closed and replaced at every change
}

// roster is the pods of this replica as the watch shows them, and who waits for
// news of them. An entry is made before its pod is asked for. What a pod is known
// by is its namespace, name and uid: whoever may make pods in one namespace can
// give one the name, and the labels, of a sandbox of another.
type roster struct {
	mu       sync.Mutex
	closed   bool
	entries  map[types.NamespacedName]*entry
	ids      map[string]*entry
	watchers map[chan pool.Event]struct{}
}

func newRoster() *roster {
	return &roster{entries: map[types.NamespacedName]*entry{}, ids: map[string]*entry{}, watchers: map[chan pool.Event]struct{}{}}
}

// expect makes the entry of a pod that is about to be created.
func (r *roster) expect(pod, namespace string) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.enter(types.NamespacedName{Namespace: namespace, Name: pod})
}

// enter makes an entry. The caller holds the lock.
func (r *roster) enter(name types.NamespacedName) *entry {
	e := &entry{id: name.Name, name: name, changed: make(chan struct{})}
	if r.ids[e.id] != nil {
		e.id = name.String()
	}
	r.entries[name], r.ids[e.id] = e, e
	return e
}

// of is the entry of that very pod, or nil. The caller holds the lock.
func (r *roster) of(p *corev1.Pod) *entry {
	e := r.entries[nameOf(p)]
	if e == nil || e.uid != "" && e.uid != p.UID {
		return nil
	}
	return e
}

// get is the entry, or nil.
func (r *roster) get(id string) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[id]
}

// seen takes note of a pod as the watch shows it.
func (r *roster) seen(p *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.of(p)
	if e == nil {
		if before := r.entries[nameOf(p)]; before != nil { // the watch has missed its end
			r.loseLocked(before, "its pod was deleted")
			r.dropLocked(before)
		}
		e = r.enter(nameOf(p))
	}
	e.uid, e.pod = p.UID, p
	if !e.told {
		e.told = true
		r.tell(pool.Event{ID: e.id})
	}
	if why, yes := over(p); yes {
		r.loseLocked(e, why)
	}
	e.wake()
}

// deleted takes note that a pod is gone. p is its last state.
func (r *roster) deleted(p *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.of(p)
	if e == nil {
		return
	}
	e.pod = p
	why, yes := over(p)
	if !yes {
		why = "its pod was deleted"
	}
	r.loseLocked(e, why)
	r.dropLocked(e)
}

// forget drops an entry whose pod is known not to exist.
func (r *roster) forget(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked(e)
}

func (r *roster) dropLocked(e *entry) {
	e.gone = true
	e.wake()
	if r.entries[e.name] == e {
		delete(r.entries, e.name)
		delete(r.ids, e.id)
	}
}

// created takes note of the pod's uid, from the answer to its creation.
func (r *roster) created(e *entry, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.uid = uid
}

// adopt makes the sandbox known; false when its pod has ended meanwhile.
func (r *roster) adopt(e *entry, s *sandbox) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || e.gone || e.destroying {
		return false
	}
	if e.pod != nil {
		if _, yes := over(e.pod); yes {
			return false
		}
	}
	e.sandbox = s
	return true
}

// doom marks that the pod is being destroyed by us, which is no loss.
func (r *roster) doom(e *entry) (s *sandbox, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.destroying = true
	e.wake()
	return e.sandbox, e.uid
}

// lose reports a sandbox that cannot serve a run any more.
func (r *roster) lose(e *entry, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loseLocked(e, why)
}

func (r *roster) loseLocked(e *entry, why string) {
	if e.lost || e.destroying || e.sandbox == nil {
		return
	}
	e.lost = true
	r.tell(pool.Event{ID: e.id, Gone: true, Cause: why})
}

func (e *entry) wake() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// view is an entry at one moment.
type view struct {
	pod        *corev1.Pod
	gone       bool
	destroying bool
	changed    <-chan struct{}
}

func (r *roster) look(e *entry) view {
	r.mu.Lock()
	defer r.mu.Unlock()
	return view{pod: e.pod, gone: e.gone, destroying: e.destroying, changed: e.changed}
}

// await looks at the entry whenever it changes, until done says so, at most for
// the time given. It says whether done did.
func (r *roster) await(ctx context.Context, e *entry, atMost time.Duration, done func(view) bool) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for {
		v := r.look(e)
		if done(v) {
			return true
		}
		select {
		case <-v.changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// watch reports every pod there is, then changes, until ctx ends.
func (r *roster) watch(ctx context.Context) (<-chan pool.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errStopped
	}
	events := make(chan pool.Event, 2*len(r.entries)+watchBuffer)
	for id, e := range r.ids {
		if !e.told {
			continue
		}
		events <- pool.Event{ID: id}
		if e.lost {
			events <- pool.Event{ID: id, Gone: true, Cause: "it ended before this watch began"}
		}
	}
	r.watchers[events] = struct{}{}
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unwatch(events)
	})
	return events, nil
}

// tell reports an event to every watcher. The caller holds the lock.
func (r *roster) tell(e pool.Event) {
	for events := range r.watchers {
		select {
		case events <- e:
		default: // too far behind
			r.unwatch(events)
		}
	}
}

func (r *roster) unwatch(events chan pool.Event) {
	if _, ok := r.watchers[events]; ok {
		delete(r.watchers, events)
		close(events)
	}
}

// close ends all watches: nobody follows the cluster any more.
func (r *roster) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for events := range r.watchers {
		r.unwatch(events)
	}
}
