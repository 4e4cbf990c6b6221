package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
)

const (
	zygotesPerTemplate = 2
	zygoteSpawns       = 1000 // before a zygote is renewed
	zygoteAge          = 10 * time.Minute
)

// brood is the zygotes of one template: two, so that both cores can fork.
type brood struct {
	make func(context.Context) (*zygote, error)

	mu      sync.Mutex
	slots   []slot
	next    int
	retired []*zygote // worn out, but with sandboxes alive
	closed  bool
	renew   sync.WaitGroup // makes and closes zygotes beside the runs
}

// slot holds one zygote; its lock is held while it is made for the first time.
type slot struct {
	mu       sync.Mutex
	zygote   *zygote
	renewing bool
}

// zygote returns one of the template's zygotes, and makes it if need be. It is
// held, so that it is not closed before its spawn; release lets go.
func (d *Driver) zygote(ctx context.Context, t pool.Template) (*zygote, error) {
	for t.Copy != nil {
		b, err := d.copyBrood(t)
		if err != nil {
			return nil, err
		}
		// Between the two it may have been forgotten; then there is a new one.
		if z, err := b.pick(ctx); !errors.Is(err, errForgotten) {
			return z, err
		}
	}
	key := t.Key()
	d.zygotesMu.Lock()
	if d.zygotes == nil {
		d.zygotesMu.Unlock()
		return nil, errClosed
	}
	b := d.zygotes[key]
	if b == nil {
		b = newBrood(zygotesPerTemplate, func(ctx context.Context) (*zygote, error) {
			return startZygote(ctx, d.opts.Python, d.config(t), &d.births)
		})
		d.zygotes[key] = b
	}
	d.zygotesMu.Unlock()
	return b.pick(ctx)
}

func newBrood(slots int, start func(context.Context) (*zygote, error)) *brood {
	return &brood{make: start, slots: make([]slot, slots)}
}

func (b *brood) pick(ctx context.Context) (*zygote, error) {
	b.mu.Lock()
	s := &b.slots[b.next%len(b.slots)]
	b.next++
	if !b.closed {
		b.sweep()
	}
	b.mu.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	if b.isClosed() { // told under the slot's lock: close waits for that
		return nil, errForgotten
	}
	if s.zygote != nil && !s.renewing && s.zygote.isSilent() {
		b.retire(s.zygote)
		s.zygote = nil
	}
	if s.zygote == nil || s.zygote.ended() {
		z, err := b.make(ctx)
		if err != nil {
			return nil, fmt.Errorf("cannot start a zygote: %w", err)
		}
		s.zygote = z
	}
	if !s.renewing && s.zygote.worn() {
		s.renewing = true
		b.renew.Go(func() { b.replace(s) })
	}
	s.zygote.hold()
	return s.zygote, nil
}

// replace makes a new zygote beside the old one, then retires the old one.
func (b *brood) replace(s *slot) {
	ctx, cancel := context.WithTimeout(context.Background(), zygoteBound)
	defer cancel()
	z, err := b.make(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewing = false
	if err != nil {
		return // the old one goes on; the next pick tries again
	}
	old := s.zygote
	s.zygote = z
	b.retire(old)
}

// retire closes a zygote when no sandbox lives in it any more.
func (b *brood) retire(old *zygote) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired = append(b.retired, old)
	b.sweep()
}

// sweep closes the retired zygotes that are empty, or silent for long. The caller holds the lock.
func (b *brood) sweep() {
	b.retired = slices.DeleteFunc(b.retired, func(z *zygote) bool {
		if !z.idle() && !z.overdue() {
			return false
		}
		b.renew.Go(z.close)
		return true
	})
}

// idle says whether nothing lives in any of the zygotes, and none is in use.
func (b *brood) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.slots {
		s := &b.slots[i]
		if !s.mu.TryLock() {
			return false // one is being made
		}
		busy := s.renewing || s.zygote != nil && !s.zygote.idle()
		s.mu.Unlock()
		if busy {
			return false
		}
	}
	return len(b.retired) == 0
}

// close ends all zygotes. A pick under way comes to its end first, and none
// after it finds a zygote.
func (b *brood) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	for i := range b.slots { // whoever made a zygote or had one renewed has done so after this
		b.slots[i].mu.Lock()
		b.slots[i].mu.Unlock() //nolint:staticcheck // a barrier, not a section
	}
	b.renew.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	var all sync.WaitGroup // side by side: the kernel takes its time with each one's namespaces
	for i := range b.slots {
		if z := b.slots[i].zygote; z != nil {
			all.Go(z.close)
		}
	}
	for _, z := range b.retired {
		all.Go(z.close)
	}
	all.Wait()
}

func (b *brood) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// errForgotten refuses a zygote of a brood that is closed.
var errForgotten = errors.New("the program's zygotes are closed")
