// Package pooltest holds what tests of the pool and of its drivers share: a
// fake driver, and the suite that every driver must pass.
package pooltest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// RunFunc stands for what happens in a sandbox. ctx ends with the caller's, or
// with cause ErrDestroyed when the sandbox is destroyed under it.
type RunFunc func(ctx context.Context, s *FakeSandbox, req *wire.Request, sink wire.Sink) (*wire.Result, error)

// Fake is a driver without any isolation: logic only. Set its fields before it
// is used; its methods may be called at any time. The zero value works.
type Fake struct {
	// StartDelay is how long a start takes.
	StartDelay time.Duration
	// DestroyDelay is how long a destruction takes.
	DestroyDelay time.Duration
	// Run is what a sandbox does; nil is Script.
	Run RunFunc

	mu         sync.Mutex
	startErr   func(pool.Template) error
	destroyErr func(id string) error
	last       int
	alive      map[string]*FakeSandbox
	starting   int
	peak       int
	starts     []time.Time
	attempts   map[string]int
	destroyed  []string
	watchers   map[chan pool.Event]context.Context
}

// FakeSandbox is a sandbox of a Fake.
type FakeSandbox struct {
	id       string
	template pool.Template
	driver   *Fake
	used     bool // under the driver's lock, as is lost
	lost     bool
	// ended is done when the sandbox is gone.
	ended context.Context
	end   context.CancelCauseFunc
	// Files is the sandbox's own state, for Script.
	Files map[string]bool
}

// ErrDestroyed ends what runs in a destroyed sandbox.
var ErrDestroyed = api.Errorf(api.SandboxLost, "the sandbox was destroyed").MaybeRan()

// FailStarts makes starts fail with what f returns; nil heals them.
func (d *Fake) FailStarts(f func(pool.Template) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.startErr = f
}

// FailDestroys makes destructions fail with what f returns; nil heals them.
func (d *Fake) FailDestroys(f func(id string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.destroyErr = f
}

// Start makes a sandbox after StartDelay.
func (d *Fake) Start(ctx context.Context, t pool.Template) (pool.Sandbox, error) {
	d.mu.Lock()
	d.starts = append(d.starts, time.Now())
	d.starting++
	d.peak = max(d.peak, d.starting+len(d.alive))
	fail := d.startErr
	d.mu.Unlock()
	err := sleep(ctx, d.StartDelay)
	if err == nil && fail != nil {
		err = fail(t)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starting--
	if err != nil {
		return nil, err
	}
	d.last++
	return d.add(fmt.Sprintf("fake-%d", d.last), t), nil
}

// Plant makes a sandbox that no Start asked for, as if left by an earlier life.
func (d *Fake) Plant(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(id, pool.Template{})
}

func (d *Fake) add(id string, t pool.Template) *FakeSandbox {
	s := &FakeSandbox{id: id, template: t, driver: d, Files: map[string]bool{}}
	s.ended, s.end = context.WithCancelCause(context.Background())
	if d.alive == nil {
		d.alive, d.attempts = map[string]*FakeSandbox{}, map[string]int{}
	}
	d.alive[id] = s
	d.tell(pool.Event{ID: id})
	return s
}

// Destroy ends a sandbox after DestroyDelay.
func (d *Fake) Destroy(ctx context.Context, id string) error {
	d.mu.Lock()
	fail := d.destroyErr
	if d.attempts != nil {
		d.attempts[id]++
	}
	d.mu.Unlock()
	if err := sleep(ctx, d.DestroyDelay); err != nil {
		return err
	}
	if fail != nil {
		if err := fail(id); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.alive[id]; ok {
		s.end(ErrDestroyed)
		delete(d.alive, id)
		d.destroyed = append(d.destroyed, id)
	}
	return nil
}

// Lose makes a sandbox go away by itself. A run that has not begun fails with
// a sandbox_lost of which nothing ran. With tell the watchers hear of it.
func (d *Fake) Lose(id string, tell bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.alive[id]
	if !ok || s.lost {
		return
	}
	s.lost = true
	s.end(api.Errorf(api.SandboxLost, "the sandbox went away").MaybeRan())
	if tell {
		d.tell(pool.Event{ID: id, Gone: true, Cause: "lost by the test"})
	}
}

// Tell gives watchers an event of the test's own, such as late news.
func (d *Fake) Tell(e pool.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell(e)
}

// Watch reports all sandboxes, then changes.
func (d *Fake) Watch(ctx context.Context) (<-chan pool.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	events := make(chan pool.Event, 1<<16)
	for id := range d.alive {
		events <- pool.Event{ID: id}
	}
	if d.watchers == nil {
		d.watchers = map[chan pool.Event]context.Context{}
	}
	d.watchers[events] = ctx
	context.AfterFunc(ctx, func() { d.unwatch(events) })
	return events, nil
}

// BreakWatch ends all watches, as a lost connection does.
func (d *Fake) BreakWatch() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for events := range d.watchers {
		delete(d.watchers, events)
		close(events)
	}
}

func (d *Fake) unwatch(events chan pool.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.watchers[events]; ok {
		delete(d.watchers, events)
		close(events)
	}
}

func (d *Fake) tell(e pool.Event) {
	for events := range d.watchers {
		events <- e
	}
}

// Alive lists the sandboxes that exist, sorted.
func (d *Fake) Alive() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := make([]string, 0, len(d.alive))
	for id := range d.alive {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Starts is when each start was asked for.
func (d *Fake) Starts() []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.starts)
}

// Destroyed lists the sandboxes that Destroy ended, in that order.
func (d *Fake) Destroyed() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.destroyed)
}

// Attempts is how often Destroy was called for the id.
func (d *Fake) Attempts(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attempts[id]
}

// Peak is the most sandboxes that existed or started at one time.
func (d *Fake) Peak() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peak
}

// ID is the sandbox's id.
func (s *FakeSandbox) ID() string { return s.id }

// Run executes the driver's Run once.
func (s *FakeSandbox) Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	s.driver.mu.Lock()
	used, lost := s.used, s.lost
	s.used = true
	s.driver.mu.Unlock()
	switch {
	case used:
		return nil, pool.ErrUsed
	case lost:
		return nil, api.Errorf(api.SandboxLost, "cannot reach the sandbox: it went away")
	case s.ended.Err() != nil:
		return nil, context.Cause(s.ended)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.ended, func() { cancel(context.Cause(s.ended)) })
	defer stop()
	run := s.driver.Run
	if run == nil {
		run = Script
	}
	return run(ctx, s, req, sink)
}

// sleep waits for d or for the end of ctx, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
