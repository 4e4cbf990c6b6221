package pool_test

import (
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
)

var carol = pool.Caller{Tenant: "a", Name: "carol"} // alice's neighbour

// owned is a template for one caller alone, of which one is kept warm.
func owned(owner pool.Caller, name string) pool.Template {
	t := image(name)
	t.Owner, t.Warm = owner, 1
	return t
}

// Of two callers with the same image, neither gets what is the other's.
func TestOwnedServesItsOwnerAlone(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{}, func(b *bench) {
		b.claim(alice, owned(alice, "x")).Release()
		b.after(time.Second)
		_, err := b.Claim(ctx, carol, owned(alice, "x"))
		b.refused(err, api.Forbidden)
		lease := b.claim(carol, owned(carol, "x"))
		if lease.Warm {
			t.Error("a warm sandbox of alice's serves carol")
		}
		lease.Release()
	})
}

// An owner has a few at most: the least recently used gives way for one that is
// waited for, and the others keep theirs.
func TestOwnedAreBounded(t *testing.T) {
	f := func(opts pool.Options, second pool.Caller, want int) {
		t.Helper()
		opts.Templates, opts.Target = []pool.Template{plain}, 1
		run(t, opts, &pooltest.Fake{StartDelay: 100 * time.Millisecond}, func(b *bench) {
			b.after(time.Second)
			for _, one := range []pool.Template{owned(alice, "x"), owned(second, "y"), owned(second, "z")} {
				b.claim(one.Owner, one).Release()
				b.after(time.Second)
			}
			b.stats(pool.Stats{Warm: 1 + want})
			if lease := b.claim(second, owned(second, "z")); !lease.Warm {
				t.Error("the last used was not kept")
			}
			b.after(time.Second)
			// The first of them can still be had.
			b.claim(alice, owned(alice, "x")).Release()
			b.after(time.Second)
		})
	}
	// Within the bounds.
	f(pool.Options{}, carol, 3)
	// Over that of one owner.
	f(pool.Options{OwnedPerCaller: 2}, alice, 2)
	// Over that of all owners of a tenant.
	f(pool.Options{OwnedPerTenant: 2}, carol, 2)
	// Another tenant's are not counted.
	f(pool.Options{OwnedPerTenant: 2}, bob, 3)
}

// Many who wait for one owner's sandboxes start no more than it may have, and
// hold nobody else up.
func TestOwnedBurst(t *testing.T) {
	opts := pool.Options{OwnedPerCaller: 2, Templates: []pool.Template{plain}, Target: 1}
	driver := &pooltest.Fake{StartDelay: time.Second}
	run(t, opts, driver, func(b *bench) {
		b.after(2 * time.Second)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { b.claim(alice, owned(alice, "x")).Release() })
		}
		b.after(1500 * time.Millisecond)
		if s := b.Stats(); s.Starting+s.Warm+s.Leased > 3 {
			t.Errorf("%+v", s)
		}
		b.claim(bob, plain).Release()
		b.after(time.Second)
		if lease := b.claim(bob, plain); !lease.Warm {
			t.Error("the burst of another kept a start from the template")
		}
		all.Wait()
	})
}

// When an owner goes, what is kept for it goes, and who waits is told.
func TestForget(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		b.claim(alice, owned(alice, "x")).Release()
		b.claim(carol, owned(carol, "x")).Release()
		running := b.claim(alice, owned(alice, "y"))
		b.after(2 * time.Second)
		var waited error
		var all sync.WaitGroup
		all.Go(func() { _, waited = b.Claim(ctx, alice, owned(alice, "z")) })
		b.after(100 * time.Millisecond)
		b.Forget(alice)
		all.Wait()
		b.refused(waited, api.SandboxLost)
		b.after(2 * time.Second)
		b.stats(pool.Stats{Warm: 1, Leased: 1})
		running.Release()
		// Nobody's is nobody's to drain.
		b.Forget(pool.Caller{})
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 1})
	})
}
