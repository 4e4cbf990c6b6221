package local

import (
	"context"
	"errors"
	"sync"

	"github.com/code-sandbox/code-sandbox/pool"
)

var errClosed = errors.New("the driver is closed")

// watchBuffer is how far a watcher may fall behind before its watch is broken
// off; it then watches again.
const watchBuffer = 1024

// member is a sandbox as a roster knows it.
type member interface {
	ID() string
	destroy() error // idempotent
}

// roster is the sandboxes of a driver, and who watches them come and go.
type roster[S member] struct {
	mu        sync.Mutex
	closed    bool
	sandboxes map[string]S
	watchers  map[chan pool.Event]struct{}
}

func newRoster[S member]() *roster[S] {
	return &roster[S]{sandboxes: map[string]S{}, watchers: map[chan pool.Event]struct{}{}}
}

// add records a new sandbox; false when the driver is closed.
func (r *roster[S]) add(s S) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.sandboxes[s.ID()] = s
	r.tell(pool.Event{ID: s.ID()})
	return true
}

// Destroy implements pool.Driver.
func (r *roster[S]) Destroy(_ context.Context, id string) error {
	r.mu.Lock()
	s, ok := r.sandboxes[id]
	r.mu.Unlock()
	if !ok {
		return nil
	}
	err := s.destroy()
	r.mu.Lock()
	delete(r.sandboxes, id)
	r.mu.Unlock()
	return err
}

// Watch implements pool.Driver.
func (r *roster[S]) Watch(ctx context.Context) (<-chan pool.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	events := make(chan pool.Event, len(r.sandboxes)+watchBuffer)
	for id := range r.sandboxes {
		events <- pool.Event{ID: id}
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
func (r *roster[S]) tell(e pool.Event) {
	for events := range r.watchers {
		select {
		case events <- e:
		default: // too far behind
			r.unwatch(events)
		}
	}
}

func (r *roster[S]) unwatch(events chan pool.Event) {
	if _, ok := r.watchers[events]; ok {
		delete(r.watchers, events)
		close(events)
	}
}

// lost reports a sandbox that ended before its run.
func (r *roster[S]) lost(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.sandboxes[id]; ok {
		r.tell(pool.Event{ID: id, Gone: true, Cause: "its process ended before its run"})
	}
}

// closeAll lets none in any more and destroys all.
func (r *roster[S]) closeAll() error {
	r.mu.Lock()
	r.closed = true
	sandboxes := r.sandboxes
	r.sandboxes = map[string]S{}
	r.mu.Unlock()
	var errs []error
	for _, s := range sandboxes {
		errs = append(errs, s.destroy())
	}
	return errors.Join(errs...)
}
