package local

import (
	"context"

	"github.com/code-sandbox/code-sandbox/pool"
)

// Watch implements pool.Driver. Sandboxes of this driver live and die with it,
// so that none is ever found again; one that ends early shows in its own run.
func (d *Driver) Watch(ctx context.Context) (<-chan pool.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	events := make(chan pool.Event, len(d.sandboxes))
	for id := range d.sandboxes {
		events <- pool.Event{ID: id}
	}
	context.AfterFunc(ctx, func() { close(events) })
	return events, nil
}
