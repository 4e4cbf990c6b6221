package pool_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// One caller with more runs than the pool can do does not keep another from
// its turn.
func TestGreedyCallerStarvesNobody(t *testing.T) {
	driver := &pooltest.Fake{StartDelay: 10 * time.Millisecond}
	run(t, pool.Options{Max: 4, MaxWait: 5 * time.Minute}, driver, func(b *bench) {
		var wg sync.WaitGroup
		for range 60 {
			wg.Go(func() {
				if _, err := b.Exec(ctx, alice, plain, second, nil); err != nil {
					t.Error(err)
				}
			})
		}
		b.after(100 * time.Millisecond)
		for range 5 {
			res, err := b.Exec(ctx, bob, plain, second, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.Timing.QueueMS+res.Timing.ClaimMS > 1100 {
				t.Errorf("bob waited %+v behind alice", res.Timing)
			}
		}
		wg.Wait()
	})
}

// The same across templates: one with a long queue leaves turns to another.
func TestGreedyTemplateStarvesNobody(t *testing.T) {
	driver := &pooltest.Fake{StartDelay: 10 * time.Millisecond}
	run(t, pool.Options{Max: 4, MaxWait: 5 * time.Minute}, driver, func(b *bench) {
		var wg sync.WaitGroup
		for range 60 {
			wg.Go(func() {
				if _, err := b.Exec(ctx, alice, image("x"), second, nil); err != nil {
					t.Error(err)
				}
			})
		}
		b.after(100 * time.Millisecond)
		for range 5 {
			res, err := b.Exec(ctx, bob, plain, second, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.Timing.QueueMS+res.Timing.ClaimMS > 2200 {
				t.Errorf("bob waited %+v behind another template", res.Timing)
			}
		}
		wg.Wait()
	})
}

// Beyond each bound the answer is busy, at once, and the place is free again
// later.
func TestBounds(t *testing.T) {
	f := func(opts pool.Options, who pool.Caller, want bool) {
		t.Helper()
		run(t, opts, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if _, err := b.Exec(ctx, alice, plain, second, nil); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			begun := time.Now()
			_, err := b.Exec(ctx, who, plain, &wire.Request{Code: "sleep 0"}, nil)
			if want {
				b.refused(err, api.Busy)
				if took := time.Since(begun); took > 0 {
					t.Errorf("the refusal took %v", took)
				}
			} else if err != nil {
				t.Error(err)
			}
			wg.Wait()
			if _, err := b.Exec(ctx, who, plain, second, nil); err != nil {
				t.Errorf("later: %v", err)
			}
		})
	}
	// The queue is full for all.
	f(pool.Options{QueueLimit: 3}, alice, true)
	f(pool.Options{QueueLimit: 3}, bob, true)
	f(pool.Options{QueueLimit: 4}, bob, false)
	// It is full for one caller.
	f(pool.Options{QueuePerCaller: 3}, alice, true)
	f(pool.Options{QueuePerCaller: 3}, bob, false)
	// One caller has as many runs as it may.
	f(pool.Options{InFlightPerCaller: 3}, alice, true)
	f(pool.Options{InFlightPerCaller: 3}, bob, false)
	f(pool.Options{InFlightPerCaller: 4}, alice, false)
}

// Runs that go on count as much as those that wait.
func TestInFlightCountsLeases(t *testing.T) {
	run(t, pool.Options{InFlightPerCaller: 2}, &pooltest.Fake{}, func(b *bench) {
		first, second := b.claim(alice, plain), b.claim(alice, plain)
		_, err := b.Claim(ctx, alice, plain)
		b.refused(err, api.Busy)
		first.Release()
		first.Release() // counts once
		third := b.claim(alice, plain)
		_, err = b.Claim(ctx, alice, plain)
		b.refused(err, api.Busy)
		second.Release()
		third.Release()
	})
}

func TestTemplateWithoutLimitsIsRefused(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{}, func(b *bench) {
		_, err := b.Claim(ctx, alice, pool.Template{})
		b.refused(err, api.BadRequest)
	})
}
