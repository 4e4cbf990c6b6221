package local

import (
	"context"

	"github.com/code-sandbox/code-sandbox/pool"
)

// Watch implements pool.Driver.
func (d *Bare) Watch(ctx context.Context) (<-chan pool.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	events := make(chan pool.Event, len(d.sandboxes)+watchBuffer)
	for id := range d.sandboxes {
		events <- pool.Event{ID: id}
	}
	d.watchers[events] = struct{}{}
	context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.unwatch(events)
	})
	return events, nil
}

// tell reports an event to every watcher. The caller holds the lock.
func (d *Bare) tell(e pool.Event) {
	for events := range d.watchers {
		select {
		case events <- e:
		default: // too far behind: it watches again
			d.unwatch(events)
		}
	}
}

func (d *Bare) unwatch(events chan pool.Event) {
	if _, ok := d.watchers[events]; ok {
		delete(d.watchers, events)
		close(events)
	}
}

// lost reports a sandbox that ended before its run.
func (d *Bare) lost(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.sandboxes[id]; ok {
		d.tell(pool.Event{ID: id, Gone: true, Cause: "its process ended before its run"})
	}
}
