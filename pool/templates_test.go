package pool_test

import (
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// P3: the template changes while runs are in flight; the old one is drained
// and no run is killed.
func TestTemplateChangeKillsNoRun(t *testing.T) {
	opts := pool.Options{MaxTemplates: 1}
	run(t, opts, &pooltest.Fake{StartDelay: 10 * time.Millisecond}, func(b *bench) {
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				res, err := b.Exec(ctx, alice, image("old"), &wire.Request{Code: "sleep 60"}, nil)
				if err != nil || res.Outcome != wire.OK {
					t.Errorf("run ended with %v", err)
				}
			})
		}
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 3, Leased: 5})
		b.claim(alice, image("new")).Release()
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 3, Leased: 5})
		wg.Wait()
		b.stats(pool.Stats{Warm: 3})
	})
}

// A start under way for a template that is drained meanwhile is not kept.
func TestDrainedWhileStarting(t *testing.T) {
	run(t, pool.Options{MaxTemplates: 1}, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		b.claim(alice, image("old")).Release()
		b.after(100 * time.Millisecond)
		b.claim(alice, image("new")).Release()
		b.after(5 * time.Second)
		b.stats(pool.Stats{Warm: 3})
	})
}

func TestUnusedTemplateIsDrained(t *testing.T) {
	opts := pool.Options{Templates: []pool.Template{plain}}
	run(t, opts, &pooltest.Fake{}, func(b *bench) {
		b.claim(alice, image("x")).Release()
		b.after(9 * time.Minute)
		b.stats(pool.Stats{Warm: 6})
		b.after(2 * time.Minute)
		// The one that was configured stays.
		b.stats(pool.Stats{Warm: 3})
	})
}

// Warm sandboxes that nobody waits for give way to a caller of another
// template when the pool is full.
func TestIdleTemplateMakesRoom(t *testing.T) {
	opts := pool.Options{Max: 3, Templates: []pool.Template{plain}}
	// It looks around several times while one is destroyed, and ends no more.
	run(t, opts, &pooltest.Fake{StartDelay: time.Second, DestroyDelay: 5 * time.Second}, func(b *bench) {
		b.after(2 * time.Second)
		b.stats(pool.Stats{Warm: 3})
		begun := time.Now()
		lease := b.claim(alice, image("x"))
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("the claim took %v", took)
		}
		// Only as many as were needed.
		b.stats(pool.Stats{Warm: 2, Leased: 1})
		if n := len(b.driver.Destroyed()); n != 1 {
			t.Errorf("%d were destroyed for one claim", n)
		}
		lease.Release()
	})
}

// There is room, only starts take their time: nothing is ended for it.
func TestRoomIsNotMadeWithoutNeed(t *testing.T) {
	opts := pool.Options{Max: 10, MaxStarting: 1, Templates: []pool.Template{plain}}
	run(t, opts, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		b.after(5 * time.Second)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := b.Exec(ctx, alice, image("x"), &wire.Request{Code: "sleep 20"}, nil); err != nil {
					t.Error(err)
				}
			})
		}
		b.after(10 * time.Second)
		if gone := b.driver.Destroyed(); len(gone) > 0 {
			t.Errorf("%v were destroyed", gone)
		}
		wg.Wait()
	})
}

// All templates are in use, and one more is asked for.
func TestTooManyTemplates(t *testing.T) {
	opts := pool.Options{MaxTemplates: 1, Templates: []pool.Template{plain}}
	run(t, opts, &pooltest.Fake{}, func(b *bench) {
		_, err := b.Claim(ctx, alice, image("x"))
		b.refused(err, api.NoCapacity)
		b.stats(pool.Stats{Warm: 3})
	})
}

// A template somebody waits for is neither pushed out by another nor drained
// as unused.
func TestAwaitedTemplateStays(t *testing.T) {
	opts := pool.Options{MaxTemplates: 1, TemplateIdle: time.Second}
	run(t, opts, &pooltest.Fake{StartDelay: 5 * time.Second}, func(b *bench) {
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = b.Exec(ctx, alice, image("x"), second, nil) })
		b.after(time.Second)
		_, refusal := b.Claim(ctx, alice, image("y"))
		b.refused(refusal, api.NoCapacity)
		wg.Wait()
		if err != nil {
			t.Error(err)
		}
	})
}

// A template may keep fewer warm than the others: a copy of an agent's program
// costs more than an interpreter.
func TestTemplateWithATargetOfItsOwn(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{}, func(b *bench) {
		one := image("copy")
		one.Warm = 1
		b.claim(alice, one).Release()
		b.after(time.Minute)
		b.stats(pool.Stats{Warm: 1})
		// It is the same template, whatever its target.
		b.claim(alice, image("copy")).Release()
		b.after(time.Minute)
		b.stats(pool.Stats{Warm: 1})
	})
}

// Copies of two functions are two templates.
func TestKeyTellsCopiesApart(t *testing.T) {
	f := func(a, b *wire.Copy, same bool) {
		t.Helper()
		if got := (pool.Template{Copy: a}).Key() == (pool.Template{Copy: b}).Key(); got != same {
			t.Errorf("the keys are equal: %v", got)
		}
	}
	add, sub := []byte(`{"qualname":"add"}`), []byte(`{"qualname":"sub"}`)
	boot := []byte(`{}`)
	f(&wire.Copy{Boot: boot, Target: add}, &wire.Copy{Boot: boot, Target: add}, true)
	f(&wire.Copy{Boot: boot, Target: add}, &wire.Copy{Boot: boot, Target: sub}, false)
	f(&wire.Copy{Boot: boot, Target: add}, nil, false)
}

// Key is the whole hash, and a label's value; each field is in it.
func TestKeyIsWhole(t *testing.T) {
	base := pool.Template{Image: "x", Owner: alice}
	key := base.Key()
	if !regexp.MustCompile(`^[a-z2-7]{52}$`).MatchString(key) { // 5 bits each: 256 in all
		t.Errorf("the key is %q", key)
	}
	f := func(change func(*pool.Template)) {
		t.Helper()
		other := base
		change(&other)
		if other.Key() == key {
			t.Errorf("%+v has the key of %+v", other, base)
		}
	}
	f(func(o *pool.Template) { o.Image = "y" })
	f(func(o *pool.Template) { o.Owner = bob })
	f(func(o *pool.Template) { o.Owner.Name += "x" })
	f(func(o *pool.Template) { o.DNS = "none" })
	f(func(o *pool.Template) { o.Limits.MemoryBytes++ })
	f(func(o *pool.Template) { o.Preload = []string{"json"} })
	f(func(o *pool.Template) { o.Copy = &wire.Copy{} })
}

// The first copy of a program starts alone; the others follow it.
func TestFirstCopyStartsAlone(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		copies := pool.Template{Limits: plain.Limits, Warm: 1, Copy: &wire.Copy{Boot: []byte("{}"), Target: []byte("{}")}}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { b.claim(alice, copies).Release() })
		}
		b.after(500 * time.Millisecond)
		b.stats(pool.Stats{Starting: 1, Waiting: 3})
		b.after(time.Second)
		b.stats(pool.Stats{Starting: 3, Waiting: 2})
		wg.Wait()
		b.after(2 * time.Second)
		b.stats(pool.Stats{Warm: 1})
	})
}

// The copy that takes a used one's place is put off a moment, for the call that
// used it; one that somebody waits for is not.
func TestRefillOfACopyIsPutOff(t *testing.T) {
	driver := &pooltest.Fake{StartDelay: time.Second}
	run(t, pool.Options{}, driver, func(b *bench) {
		copies := pool.Template{Limits: plain.Limits, Warm: 1, Copy: &wire.Copy{Boot: []byte("{}"), Target: []byte("{}")}}
		last := func(want time.Duration, since time.Time) {
			t.Helper()
			starts := driver.Starts()
			if got := starts[len(starts)-1].Sub(since); got != want {
				t.Errorf("the start was asked for after %v, not %v", got, want)
			}
		}
		asked := time.Now()
		b.claim(alice, copies).Release() // waits for the first copy
		b.after(2 * time.Second)
		last(25*time.Millisecond, asked.Add(time.Second))
		asked = time.Now()
		lease := b.claim(alice, copies)
		b.after(500 * time.Millisecond)
		last(25*time.Millisecond, asked)
		lease.Release()
		var wg sync.WaitGroup
		asked = time.Now()
		for range 2 {
			wg.Go(func() { b.claim(alice, copies).Release() })
		}
		b.after(100 * time.Millisecond)
		last(0, asked)
		wg.Wait()
	})
}
