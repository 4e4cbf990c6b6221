package pool_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
)

// P5: what an earlier life of the pool left is destroyed and never serves, be
// it known from the first moment or later, while starts are under way.
func TestUnknownSandboxesAreDestroyed(t *testing.T) {
	driver := &pooltest.Fake{StartDelay: time.Second}
	driver.Plant("left-1")
	driver.Plant("left-2")
	run(t, pool.Options{Templates: []pool.Template{plain}}, driver, func(b *bench) {
		b.after(5 * time.Second)
		b.driver.Plant("late")
		b.after(5 * time.Second)
		b.stats(pool.Stats{Warm: 3})
		for range 3 {
			lease := b.claim(alice, plain)
			defer lease.Release()
			if id := lease.Sandbox.ID(); id[:4] != "fake" {
				t.Errorf("%s serves", id)
			}
		}
		if got := fmt.Sprint(len(b.driver.Destroyed()), b.driver.Attempts("left-1"), b.driver.Attempts("left-2"), b.driver.Attempts("late")); got != "3 1 1 1" {
			t.Errorf("destroyed in all, and attempts for each: %s", got)
		}
	})
}

// A lease that nobody releases is taken after its deadline and the grace.
func TestReaperTakesWhatOutlivedItsDeadline(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{}, func(b *bench) {
		lease := b.claim(alice, plain)
		b.after(309 * time.Second)
		b.stats(pool.Stats{Warm: 3, Leased: 1})
		b.after(3 * time.Second)
		b.stats(pool.Stats{Warm: 3})
		lease.Release() // late, and harmless
		if n := b.driver.Attempts(lease.Sandbox.ID()); n != 1 {
			t.Errorf("destroyed %d times", n)
		}
	})
}

// P8: the driver refuses to destroy for ten minutes. It is tried until it is
// gone, ever less often, and the sandbox holds its place until then.
func TestDestroyRefused(t *testing.T) {
	driver := &pooltest.Fake{}
	run(t, pool.Options{Max: 4, Target: 3}, driver, func(b *bench) {
		lease := b.claim(alice, plain)
		id := lease.Sandbox.ID()
		b.driver.FailDestroys(func(string) error { return errors.New("429 too many requests") })
		lease.Release()
		b.after(10 * time.Minute)
		b.stats(pool.Stats{Warm: 3, Destroying: 1})
		if n := b.driver.Attempts(id); n < 20 || n > 45 {
			t.Errorf("tried %d times in ten minutes", n)
		}
		// The bound holds: three warm are claimed, a fourth has no place.
		for range 3 {
			defer b.claim(alice, plain).Release()
		}
		_, err := b.Claim(ctx, alice, plain)
		b.refused(err, api.NoCapacity)
		b.driver.FailDestroys(nil)
		// Then the place is free again, at the next attempt: in 36 s at the latest,
		// which is longer than a claim waits.
		b.after(36 * time.Second)
		defer b.claim(alice, plain).Release()
		if n := b.driver.Peak(); n > 4 {
			t.Errorf("%d sandboxes existed at once", n)
		}
	})
}

// Never more are destroyed at once than allowed.
func TestMaxDestroying(t *testing.T) {
	driver := &pooltest.Fake{}
	var mu sync.Mutex
	now, most := 0, 0
	driver.FailDestroys(func(string) error {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		now--
		return nil
	})
	run(t, pool.Options{MaxDestroying: 2, Target: 6}, driver, func(b *bench) {
		for range 6 {
			defer b.claim(alice, plain).Release()
		}
	})
	if most != 2 {
		t.Errorf("%d were destroyed at once", most)
	}
}

// News of a sandbox may come when it has been destroyed already.
func TestLateNews(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{}, func(b *bench) {
		lease := b.claim(alice, plain)
		id := lease.Sandbox.ID()
		lease.Release()
		b.after(time.Second)
		b.driver.Tell(pool.Event{ID: id})
		b.after(time.Second)
		b.driver.Tell(pool.Event{ID: id, Gone: true})
		b.after(time.Second)
		if n := b.driver.Attempts(id); n != 1 {
			t.Errorf("destroyed %d times", n)
		}
	})
}

// A pool that cannot destroy its sandboxes stops all the same, and says so.
func TestStopWhenDestroyIsRefused(t *testing.T) {
	driver := &pooltest.Fake{}
	driver.FailDestroys(func(string) error { return errors.New("refused") })
	opts := pool.Options{Templates: []pool.Template{plain}, DrainTimeout: time.Second, DestroyTimeout: 10 * time.Second}
	var err error
	var took time.Duration
	run(t, opts, driver, func(b *bench) {
		b.unclean = true
		begun := time.Now()
		err = b.stop()
		took = time.Since(begun)
	})
	if err == nil || err.Error() != "cannot destroy all sandboxes: 3 are left" {
		t.Errorf("error is %v", err)
	}
	if took > 13*time.Second {
		t.Errorf("stopping took %v", took)
	}
}

// A warm sandbox that goes away is replaced; a leased one is left to its run.
func TestGoneSandboxes(t *testing.T) {
	run(t, pool.Options{Templates: []pool.Template{plain}}, &pooltest.Fake{}, func(b *bench) {
		gone := b.driver.Alive()[0]
		b.driver.Lose(gone, true)
		b.after(100 * time.Millisecond)
		b.stats(pool.Stats{Warm: 3})
		if n := b.driver.Attempts(gone); n != 1 {
			t.Errorf("what was left of it was destroyed %d times", n)
		}
		lease := b.claim(alice, plain)
		b.driver.Lose(lease.Sandbox.ID(), true)
		b.after(100 * time.Millisecond)
		b.stats(pool.Stats{Warm: 3, Leased: 1})
		lease.Release()
	})
}

// The watch breaks, and a warm sandbox goes away while nobody looks.
func TestGoneWhileNotWatching(t *testing.T) {
	run(t, pool.Options{Templates: []pool.Template{plain}}, &pooltest.Fake{}, func(b *bench) {
		gone := b.driver.Alive()[0]
		if err := b.driver.Destroy(ctx, gone); err != nil {
			t.Fatal(err)
		}
		b.driver.BreakWatch()
		b.after(time.Minute)
		b.stats(pool.Stats{Warm: 3})
		if n := len(b.driver.Alive()); n != 3 {
			t.Errorf("%d sandboxes stand", n)
		}
		// The others were reported again, and kept.
		if n := len(b.driver.Starts()); n != 4 {
			t.Errorf("%d starts", n)
		}
	})
}

// deaf is a driver whose first watches fail.
type deaf struct {
	*pooltest.Fake
	mu    sync.Mutex
	fails int
}

func (d *deaf) Watch(ctx context.Context) (<-chan pool.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails--; d.fails >= 0 {
		return nil, errors.New("connection refused")
	}
	return d.Fake.Watch(ctx)
}

// A watch that fails is tried again; runs go on meanwhile.
func TestWatchFails(t *testing.T) {
	driver := &deaf{Fake: &pooltest.Fake{}, fails: 5}
	driver.Plant("left")
	run(t, pool.Options{Driver: driver}, driver.Fake, func(b *bench) {
		b.claim(alice, plain).Release()
		b.after(5 * time.Second)
		if n := b.driver.Attempts("left"); n != 1 {
			t.Errorf("what was left is destroyed %d times", n)
		}
		b.after(time.Minute)
		b.stats(pool.Stats{Warm: 3})
		// Nothing that was reported is taken for lost.
		if n := len(b.driver.Starts()); n != 4 {
			t.Errorf("%d starts", n)
		}
	})
}

// twins is a driver that gives every sandbox out a second time, some starts
// later.
type twins struct {
	*pooltest.Fake
	later int
	mu    sync.Mutex
	calls int
	past  []pool.Sandbox
}

func (d *twins) Start(ctx context.Context, t pool.Template) (pool.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if d.calls%2 == 0 && len(d.past) > d.later {
		return d.past[len(d.past)-1-d.later], nil
	}
	s, err := d.Fake.Start(ctx, t)
	d.past = append(d.past, s)
	return s, err
}

// An id that was seen before never serves.
func TestIDsAreNeverReused(t *testing.T) {
	f := func(later, wantAttempts int) {
		t.Helper()
		driver := &twins{Fake: &pooltest.Fake{}, later: later}
		served := map[string]bool{}
		run(t, pool.Options{Driver: driver, Target: 1, MaxStarting: 1}, driver.Fake, func(b *bench) {
			for range 8 {
				lease := b.claim(alice, plain)
				if id := lease.Sandbox.ID(); served[id] {
					t.Errorf("%s served twice", id)
				}
				served[lease.Sandbox.ID()] = true
				b.after(time.Second)
				lease.Release()
				b.after(time.Second)
			}
		})
		if n := driver.Attempts("fake-2"); n != wantAttempts {
			t.Errorf("destroyed %d times, want %d", n, wantAttempts)
		}
	}
	// Its sandbox still stands, and runs on.
	f(0, 1)
	// It is gone: what bears the id now is destroyed as well.
	f(4, 2)
}
