package pool_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
)

// P4: starts fail for ten minutes, with a reason that the driver gives.
func TestStartsFailForLong(t *testing.T) {
	opts := pool.Options{Templates: []pool.Template{plain}}
	driver := &pooltest.Fake{StartDelay: 10 * time.Millisecond}
	driver.FailStarts(func(pool.Template) error {
		return api.Errorf(api.NoCapacity, `cannot pull the image "x": not found`)
	})
	run(t, opts, driver, func(b *bench) {
		// The first start fails before a caller comes, or while it waits.
		_, err := b.Claim(ctx, alice, plain)
		e := b.refused(err, api.NoCapacity)
		if !strings.Contains(e.Message, `cannot pull the image "x"`) {
			t.Errorf("the caller is not told why: %v", e)
		}
		b.after(10 * time.Minute)
		starts := b.driver.Starts()
		// At first the target and the one that waits; then one at a time, in ever
		// longer steps.
		if n := len(starts); n < 20 || n > 45 {
			t.Errorf("%d starts in ten minutes of failure", n)
		}
		for i := 6; i < len(starts); i++ {
			gap, before := starts[i].Sub(starts[i-1]), starts[i-1].Sub(starts[i-2])
			if i < 12 && (gap < before*5/4 || gap > before*13/4) {
				t.Errorf("start %d came after %v, the one before after %v", i, gap, before)
			}
			if gap > 37*time.Second {
				t.Errorf("start %d came after %v", i, gap)
			}
		}
		if peak := b.driver.Peak(); peak > 4 {
			t.Errorf("%d starts were in flight for a target of 3 and one caller", peak)
		}
		// Callers are told at once, from what is known.
		begun := time.Now()
		_, err = b.Exec(ctx, alice, plain, second, nil)
		b.refused(err, api.NoCapacity)
		if took := time.Since(begun); took > 20*time.Millisecond {
			t.Errorf("the refusal took %v", took)
		}
		b.driver.FailStarts(nil)
		b.after(40 * time.Second)
		b.stats(pool.Stats{Warm: 3})
		b.claim(alice, plain).Release()
	})
}

// A failure that the driver does not explain is retried before callers are
// told; one accident among starts never fails a claim.
func TestOneFailedStartFailsNoClaim(t *testing.T) {
	driver := &pooltest.Fake{StartDelay: 5 * time.Millisecond}
	var mu sync.Mutex
	left := 2
	driver.FailStarts(func(pool.Template) error {
		mu.Lock()
		defer mu.Unlock()
		if left--; left >= 0 {
			return errors.New("not ready: EOF")
		}
		return nil
	})
	run(t, pool.Options{Target: 1}, driver, func(b *bench) {
		b.claim(alice, plain).Release()
	})
}

// What the driver calls an accident is waited out, and told in its own words
// when it goes on.
func TestAccidents(t *testing.T) {
	f := func(accidents int, code api.Code) {
		t.Helper()
		driver := &pooltest.Fake{StartDelay: 5 * time.Millisecond}
		var mu sync.Mutex
		left := accidents
		driver.FailStarts(func(pool.Template) error {
			mu.Lock()
			defer mu.Unlock()
			if left--; left >= 0 {
				return pool.Accident(api.Errorf(api.Internal, "the network is open"))
			}
			return nil
		})
		run(t, pool.Options{Target: 1}, driver, func(b *bench) {
			lease, err := b.Claim(ctx, alice, plain)
			if code == "" {
				if err != nil {
					t.Fatal(err)
				}
				lease.Release()
				return
			}
			if e := b.refused(err, code); e.Message != "the network is open" {
				t.Errorf("message is %q", e.Message)
			}
		})
	}
	f(1, "")
	f(2, "")
	f(100, api.Internal)
}

// Failures without an explanation become no_capacity, and name the cause.
func TestUnexplainedFailures(t *testing.T) {
	driver := &pooltest.Fake{}
	driver.FailStarts(func(pool.Template) error { return errors.New("out of memory") })
	run(t, pool.Options{}, driver, func(b *bench) {
		begun := time.Now()
		_, err := b.Claim(ctx, alice, plain)
		e := b.refused(err, api.NoCapacity)
		if e.Message != "cannot start a sandbox: out of memory" {
			t.Errorf("message is %q", e.Message)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the refusal took %v", took)
		}
	})
}

// Many starts that fail together count as one failure.
func TestFailuresTogetherCountOnce(t *testing.T) {
	driver := &pooltest.Fake{StartDelay: time.Second}
	driver.FailStarts(func(pool.Template) error { return errors.New("no") })
	run(t, pool.Options{Target: 8, Templates: []pool.Template{plain}}, driver, func(b *bench) {
		b.after(1500 * time.Millisecond)
		starts := b.driver.Starts()
		if len(starts) != 9 || starts[8].Sub(starts[7]) > 1060*time.Millisecond {
			t.Errorf("%d starts, the last at %v", len(starts), starts[len(starts)-1])
		}
	})
}

// While starts fail slowly there is one at a time, however long ago the last
// failure is.
func TestOneProbeAtATime(t *testing.T) {
	driver := &pooltest.Fake{StartDelay: time.Minute}
	driver.FailStarts(func(pool.Template) error { return errors.New("no") })
	run(t, pool.Options{Templates: []pool.Template{plain}}, driver, func(b *bench) {
		b.after(90 * time.Second)
		b.stats(pool.Stats{Starting: 1})
	})
}

// A start fails while another is under way, which then serves the caller.
func TestFailureBesideAStartThatSucceeds(t *testing.T) {
	driver := &pooltest.Fake{}
	var mu sync.Mutex
	starts := 0
	driver.FailStarts(func(pool.Template) error {
		mu.Lock()
		starts++
		first := starts == 1
		mu.Unlock()
		if first {
			return api.Errorf(api.NoCapacity, "no")
		}
		time.Sleep(time.Second)
		return nil
	})
	run(t, pool.Options{Target: 2}, driver, func(b *bench) {
		b.claim(alice, plain).Release()
	})
}

// A template that failed while the pool is full of others is tried again when
// a caller comes.
func TestFailedTemplateRecoversInAFullPool(t *testing.T) {
	driver := &pooltest.Fake{}
	driver.FailStarts(func(t pool.Template) error {
		if t.Image == "x" {
			return api.Errorf(api.NoCapacity, "no")
		}
		return nil
	})
	run(t, pool.Options{Max: 3, Templates: []pool.Template{plain}}, driver, func(b *bench) {
		_, err := b.Claim(ctx, alice, image("x"))
		b.refused(err, api.NoCapacity)
		b.after(time.Minute)
		b.stats(pool.Stats{Warm: 3})
		b.driver.FailStarts(nil)
		b.claim(alice, image("x")).Release()
	})
}

// What is wrong with the caller's own template is said with its own code.
func TestFailureKeepsItsCode(t *testing.T) {
	driver := &pooltest.Fake{}
	driver.FailStarts(func(t pool.Template) error {
		if t.Image == "bad" {
			return api.Errorf(api.Unsandboxable, "the image has no python")
		}
		return nil
	})
	run(t, pool.Options{}, driver, func(b *bench) {
		_, err := b.Claim(ctx, alice, image("bad"))
		b.refused(err, api.Unsandboxable)
		// Another template is served all the same.
		b.claim(alice, plain).Release()
	})
}

// What can never start is not tried again but for a caller, who is told anew.
func TestRefusedForGood(t *testing.T) {
	opts := pool.Options{Templates: []pool.Template{plain}}
	driver := &pooltest.Fake{StartDelay: 10 * time.Millisecond}
	driver.FailStarts(func(pool.Template) error { return api.Errorf(api.Unsandboxable, "the interpreter's own folder is /") })
	run(t, opts, driver, func(b *bench) {
		b.after(10 * time.Minute)
		first := len(b.driver.Starts())
		if first > 4 { // the target, and one that was under way
			t.Errorf("%d starts of what cannot start, with nobody there", first)
		}
		_, err := b.Claim(ctx, alice, plain)
		b.refused(err, api.Unsandboxable)
		b.after(10 * time.Minute)
		if n := len(b.driver.Starts()); n != first+1 {
			t.Errorf("%d starts for one caller", n-first)
		}
		// What was wrong has been set right.
		b.driver.FailStarts(nil)
		b.claim(alice, plain).Release()
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 3})
	})
}

// Max bounds everything in existence, and who waits longer than MaxWait is
// told so.
func TestMax(t *testing.T) {
	driver := &pooltest.Fake{StartDelay: time.Second, DestroyDelay: time.Second}
	run(t, pool.Options{Max: 4, Target: 2, MaxWait: 5 * time.Second}, driver, func(b *bench) {
		for range 4 {
			defer b.claim(alice, plain).Release()
		}
		begun := time.Now()
		_, err := b.Claim(ctx, bob, plain)
		b.refused(err, api.NoCapacity)
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("the refusal took %v", took)
		}
		if peak := b.driver.Peak(); peak != 4 {
			t.Errorf("%d sandboxes existed at once", peak)
		}
	})
}

// Who waits longer for a start than MaxWait is told that it is the start.
func TestStartTakesLongerThanTheWait(t *testing.T) {
	run(t, pool.Options{MaxWait: 5 * time.Second}, &pooltest.Fake{StartDelay: 9 * time.Second}, func(b *bench) {
		_, err := b.Claim(ctx, alice, plain)
		b.refused(err, api.NoCapacity)
		if want := "none was free within 5s; to make one takes longer"; !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	})
}

// The pool keeps more warm while claims come fast, and fewer again later.
func TestTargetFollowsDemand(t *testing.T) {
	run(t, pool.Options{MaxTarget: 12}, &pooltest.Fake{StartDelay: 350 * time.Millisecond}, func(b *bench) {
		b.claim(alice, plain).Release()
		cold := 0
		for i := range 600 { // 20 a second: seven while one is made
			b.after(50 * time.Millisecond)
			if lease := b.claim(alice, plain); !lease.Warm && i > 300 {
				cold++
				lease.Release()
			} else {
				lease.Release()
			}
		}
		b.after(time.Second)
		if n := b.Stats().Warm; n < 10 || n > 12 {
			t.Errorf("%d are warm at 20 claims a second", n)
		}
		if cold > 0 {
			t.Errorf("%d claims were cold in the long run", cold)
		}
		b.after(5 * time.Second)
		if n := b.Stats().Warm; n < 8 {
			t.Errorf("only %d are warm after five quiet seconds", n)
		}
		b.after(3 * time.Minute)
		b.stats(pool.Stats{Warm: 3})
	})
}

// A caller that leaves the queue takes nothing with it.
func TestCallerLeaves(t *testing.T) {
	run(t, pool.Options{Target: 1}, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		begun := time.Now()
		leaving, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := b.Claim(leaving, alice, plain)
		e := b.refused(err, api.Timeout)
		if !errors.Is(e, context.DeadlineExceeded) || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("left with %v after %v", e, time.Since(begun))
		}
		b.after(5 * time.Second)
		b.stats(pool.Stats{Warm: 1})
		// One that has left already takes no sandbox.
		_, err = b.Claim(leaving, alice, plain)
		b.refused(err, api.Timeout)
		b.stats(pool.Stats{Warm: 1})
	})
}

// A caller that leaves in the instant it is served leaks no sandbox and no
// place.
func TestCallerLeavesWhenServed(t *testing.T) {
	opts := pool.Options{Target: 1, MaxTarget: 1, InFlightPerCaller: 2, Templates: []pool.Template{plain}}
	run(t, opts, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		b.after(2 * time.Second)
		for range 50 {
			first := b.claim(alice, plain)
			leaving, cancel := context.WithTimeout(ctx, time.Second)
			lease, err := b.Claim(leaving, alice, plain)
			cancel()
			if err == nil {
				lease.Release()
			}
			first.Release()
			b.after(5 * time.Second)
			b.stats(pool.Stats{Warm: 1})
		}
	})
}
