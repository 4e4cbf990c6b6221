package pool_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A copy that was told of is warm at the first call; one that nobody calls goes
// after a while, and with its owner at once.
func TestAhead(t *testing.T) {
	opts := pool.Options{Templates: []pool.Template{plain}, Target: 1}
	run(t, opts, &pooltest.Fake{StartDelay: 2 * time.Second}, func(b *bench) {
		b.after(3 * time.Second)
		b.Ahead(owned(alice, "x"))
		b.after(3 * time.Second)
		b.stats(pool.Stats{Warm: 2})
		lease := b.claim(alice, owned(alice, "x"))
		if !lease.Warm {
			t.Error("the first call waited")
		}
		lease.Release()
		// From then on it is as any other.
		b.after(3 * time.Second)
		b.stats(pool.Stats{Warm: 2})
		b.Ahead(owned(carol, "y"))
		b.after(9 * time.Minute)
		b.stats(pool.Stats{Warm: 3})
		b.Ahead(owned(alice, "x")) // it was called, and is active
		b.Ahead(owned(carol, "y")) // nobody has called it
		b.after(2 * time.Minute)
		b.stats(pool.Stats{Warm: 2})
		if lease := b.claim(alice, owned(alice, "x")); !lease.Warm {
			t.Error("it is not the one that was called that is kept")
		} else {
			lease.Release()
		}
		b.after(11 * time.Minute)
		b.stats(pool.Stats{Warm: 1})
		b.Ahead(owned(bob, "z"))
		b.after(3 * time.Second)
		b.Forget(bob)
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 1})
	})
}

// Copies made ahead are bounded by caller, by tenant and in all; who calls needs
// no place among them.
func TestAheadIsBounded(t *testing.T) {
	f := func(opts pool.Options, want int, owners ...pool.Caller) {
		t.Helper()
		opts.Templates, opts.Target = []pool.Template{plain}, 1
		run(t, opts, &pooltest.Fake{}, func(b *bench) {
			for i := range 12 {
				b.Ahead(owned(owners[i%len(owners)], fmt.Sprint(i)))
			}
			b.after(time.Second)
			b.stats(pool.Stats{Warm: 1 + want})
			b.claim(owners[0], owned(owners[0], "called")).Release()
			b.after(time.Second)
			b.stats(pool.Stats{Warm: 2 + want})
		})
	}
	f(pool.Options{AheadPerCaller: 3}, 3, alice)
	f(pool.Options{AheadPerCaller: 12, AheadPerTenant: 5}, 5, alice, carol)
	// Of another tenant each has its own.
	f(pool.Options{AheadPerCaller: 12, AheadPerTenant: 3}, 6, alice, bob)
	f(pool.Options{AheadPerCaller: 12, Max: 20}, 5, alice, bob)
	// One that was called is none of them any more.
	run(t, pool.Options{AheadPerCaller: 1}, &pooltest.Fake{}, func(b *bench) {
		b.Ahead(owned(alice, "x"))
		b.after(time.Second)
		b.claim(alice, owned(alice, "x")).Release()
		b.Ahead(owned(alice, "y"))
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 2})
	})
}

// A sandbox for everybody is not made ahead: nobody would bound it.
func TestAheadHasAnOwner(t *testing.T) {
	run(t, pool.Options{Templates: []pool.Template{plain}, Target: 1}, &pooltest.Fake{}, func(b *bench) {
		b.Ahead(image("another"))
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 1})
		b.Ahead(owned(alice, "another"))
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 2})
	})
}

// What is told of again and again, and never called, keeps nobody else's from being
// made, and neither does what cannot start.
func TestAheadKeepsNoPlace(t *testing.T) {
	opts := pool.Options{AheadPerCaller: 1, Templates: []pool.Template{plain}, Target: 1}
	run(t, opts, &pooltest.Fake{}, func(b *bench) {
		for range 10 {
			b.Ahead(owned(alice, "x"))
			b.after(65 * time.Second)
		}
		b.Ahead(owned(alice, "y"))
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 2})
		if lease := b.claim(alice, owned(alice, "y")); !lease.Warm {
			t.Error("the one that nobody called has its place still")
		}
	})
	// It is as old as when it was first told of, for who must give way as well.
	run(t, pool.Options{MaxTemplates: 3, AheadPerCaller: 2, Templates: []pool.Template{plain}, Target: 1}, &pooltest.Fake{}, func(b *bench) {
		b.Ahead(owned(alice, "x"))
		b.Ahead(owned(alice, "y"))
		b.after(time.Second)
		b.Ahead(owned(alice, "x"))
		b.claim(alice, owned(alice, "z")).Release()
		if lease := b.claim(alice, owned(alice, "y")); !lease.Warm {
			t.Error("the newer one gave way to the one that was told of again")
		} else {
			lease.Release()
		}
	})
	run(t, opts, &pooltest.Fake{}, func(b *bench) {
		b.driver.FailStarts(func(t pool.Template) error {
			if t.Image == "bad" {
				return api.Errorf(api.Unsandboxable, "no module named x").Because("import_failed")
			}
			return nil
		})
		b.Ahead(owned(alice, "bad"))
		b.after(time.Second)
		b.Ahead(owned(alice, "y"))
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 2})
	})
}

// What is told of ahead stands back: who waits gets the place of a copy that
// nobody has asked for, and all templates in use leave it none.
func TestAheadStandsBack(t *testing.T) {
	run(t, pool.Options{Max: 4, Target: 1, MaxStarting: 4, Templates: []pool.Template{plain}}, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		b.Ahead(owned(alice, "x"))
		b.after(3 * time.Second)
		b.stats(pool.Stats{Warm: 2})
		for range 4 {
			go func() {
				if res, err := b.Exec(ctx, bob, plain, &wire.Request{Code: "sleep 5"}, nil); err != nil || res.Outcome != wire.OK {
					t.Errorf("%+v, %v", res, err)
				}
			}()
		}
		b.after(4 * time.Second)
		b.stats(pool.Stats{Leased: 4})
		b.after(20 * time.Second)
		b.stats(pool.Stats{Warm: 2})
	})
	run(t, pool.Options{MaxTemplates: 2, Target: 1, Templates: []pool.Template{plain}}, &pooltest.Fake{}, func(b *bench) {
		b.claim(alice, owned(alice, "x")).Release()
		b.Ahead(owned(alice, "y"))
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 2})
		if lease := b.claim(alice, owned(alice, "x")); !lease.Warm {
			t.Error("one that was called gave way")
		}
	})
	run(t, pool.Options{BytesPerCaller: 10}, &pooltest.Fake{}, func(b *bench) {
		b.Ahead(sized(alice, "x", 6))
		b.Ahead(sized(alice, "y", 5)) // one too large
		b.Ahead(sized(alice, "z", 4))
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 2})
		if lease := b.claim(alice, sized(alice, "z", 4)); !lease.Warm {
			t.Error("what had room was not made")
		}
	})
}

// Copies made ahead are made one after the other, and after those that are asked
// for: the import of one would slow the other down.
func TestAheadOneByOne(t *testing.T) {
	run(t, pool.Options{Templates: []pool.Template{plain}, Target: 1}, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		b.after(2 * time.Second)
		b.Ahead(owned(alice, "x"))
		b.Ahead(owned(alice, "y"))
		b.Ahead(owned(bob, "z"))
		b.after(500 * time.Millisecond)
		b.stats(pool.Stats{Warm: 1, Starting: 2})
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 3, Starting: 1})
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 4})
		// A call of another function comes first, and its stock.
		go func() { b.claim(carol, owned(carol, "called")).Release() }()
		b.after(100 * time.Millisecond)
		b.Ahead(owned(carol, "x"))
		b.after(500 * time.Millisecond)
		b.stats(pool.Stats{Warm: 4, Starting: 2, Waiting: 1})
		b.after(10 * time.Second)
		b.stats(pool.Stats{Warm: 6})
	})
}
