package pool_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// once claims and releases, so that the template is known.
func (b *bench) once(owner pool.Caller, name string) (warm bool) {
	b.t.Helper()
	lease := b.claim(owner, owned(owner, name))
	lease.Release()
	b.after(time.Second)
	return lease.Warm
}

// However many kinds of copies one agent asks for, those of others stay warm: it
// loses its own, the one that was not used for longest first.
func TestManyTemplatesPushOutTheirOwn(t *testing.T) {
	f := func(opts pool.Options, greedy, other pool.Caller, kept int) {
		t.Helper()
		run(t, opts, &pooltest.Fake{}, func(b *bench) {
			b.once(other, "a")
			b.once(other, "b")
			for i := range 20 {
				b.once(greedy, fmt.Sprint("kind ", i))
			}
			if !b.once(other, "a") || !b.once(other, "b") {
				t.Errorf("%v pushed out what is kept for %v", greedy, other)
			}
			b.stats(pool.Stats{Warm: 2 + kept})
			if !b.once(greedy, "kind 19") || b.once(greedy, fmt.Sprint("kind ", 20-kept-1)) {
				t.Error("it is not the last used that are kept")
			}
		})
	}
	// All templates that there may be: of another tenant, of a neighbour.
	f(pool.Options{MaxTemplates: 6}, alice, bob, 4)
	f(pool.Options{MaxTemplates: 6}, alice, carol, 4)
	// All that one caller may have.
	f(pool.Options{TemplatesPerCaller: 3}, alice, carol, 3)
	// All that a tenant may have, its neighbour's included.
	f(pool.Options{TemplatesPerTenant: 6}, alice, carol, 4)
	f(pool.Options{TemplatesPerTenant: 3}, alice, bob, 3)
}

// sized is an owner's template of which the pool keeps so many bytes.
func sized(owner pool.Caller, name string, size int) pool.Template {
	t := owned(owner, name)
	t.Size = size
	return t
}

// Templates are bounded by what they take in memory as well: who has as much loses
// as many of its own as one more needs.
func TestTemplatesAreBoundedInBytes(t *testing.T) {
	f := func(opts pool.Options, other pool.Caller, kept string) {
		t.Helper()
		run(t, opts, &pooltest.Fake{}, func(b *bench) {
			all := []pool.Template{sized(other, "a", 3), sized(alice, "b", 1), sized(alice, "c", 2), sized(alice, "d", 4), sized(alice, "e", 3)}
			for _, template := range all {
				b.claim(template.Owner, template).Release()
				b.after(time.Second)
			}
			b.stats(pool.Stats{Warm: len(kept)})
			for _, template := range all {
				if !strings.Contains(kept, template.Image) {
					continue
				}
				lease := b.claim(template.Owner, template)
				if !lease.Warm {
					t.Errorf("%s is gone", template.Image)
				}
				lease.Release()
				b.after(time.Second)
			}
		})
	}
	f(pool.Options{}, bob, "abcde")
	// Two of hers are not enough for the last one.
	f(pool.Options{BytesPerCaller: 8}, bob, "ade")
	f(pool.Options{BytesPerTenant: 10}, carol, "ade")
	f(pool.Options{BytesPerTenant: 10}, bob, "abcde")
	f(pool.Options{MaxBytes: 10}, bob, "ade")
	// What fits nowhere pushes nothing out.
	run(t, pool.Options{BytesPerCaller: 8}, &pooltest.Fake{}, func(b *bench) {
		b.claim(alice, sized(alice, "a", 8)).Release()
		b.after(time.Second)
		_, err := b.Claim(ctx, alice, sized(alice, "b", 9))
		b.refused(err, api.TooLarge)
		b.stats(pool.Stats{Warm: 1})
	})
}

// Callers of one namespace have, together, no more than those of another.
func TestManyCallersOfOneTenant(t *testing.T) {
	run(t, pool.Options{MaxTemplates: 6}, &pooltest.Fake{}, func(b *bench) {
		b.once(bob, "a")
		b.once(bob, "b")
		for i := range 20 {
			b.once(pool.Caller{Tenant: alice.Tenant, Name: fmt.Sprint("agent ", i)}, "x")
		}
		if !b.once(bob, "a") || !b.once(bob, "b") {
			t.Error("many callers of one tenant pushed out what is kept for another")
		}
	})
}

// Who comes late gets its share of those who have more.
func TestLateComersGetTheirShare(t *testing.T) {
	run(t, pool.Options{MaxTemplates: 4}, &pooltest.Fake{}, func(b *bench) {
		for i := range 4 {
			b.once(alice, fmt.Sprint("kind ", i))
		}
		b.once(bob, "a")
		b.once(bob, "b")
		if !b.once(bob, "a") || !b.once(bob, "b") || !b.once(alice, "kind 2") || !b.once(alice, "kind 3") {
			t.Error("the shares are not even")
		}
		b.once(bob, "c") // of its own: it has as many as alice
		if !b.once(alice, "kind 2") || !b.once(alice, "kind 3") {
			t.Error("bob took more than his share")
		}
	})
}

// When all that may give way is somebody's who has less, who asks is refused.
func TestNobodyWithLessGivesWay(t *testing.T) {
	run(t, pool.Options{MaxTemplates: 3, OwnedPerCaller: 1}, &pooltest.Fake{}, func(b *bench) {
		b.once(bob, "a")
		lease := b.claim(alice, owned(alice, "kind 0")) // all that she may have at once
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				_, err := b.Claim(ctx, alice, owned(alice, fmt.Sprint("kind ", i)))
				b.refused(err, api.NoCapacity) // it has waited for too long
			})
		}
		b.after(time.Second)
		_, err := b.Claim(ctx, alice, owned(alice, "kind 2"))
		if e := b.refused(err, api.NoCapacity); e.RetryAfter != 5*time.Second {
			t.Errorf("it is to come again after %v", e.RetryAfter)
		}
		if !b.once(bob, "a") {
			t.Error("who has one gave way to who has two")
		}
		all.Wait()
		lease.Release()
	})
}

// A full pool has those give way first who have most that nobody uses.
func TestRoomIsMadeByWhoHasMost(t *testing.T) {
	opts := pool.Options{Max: 6}
	run(t, opts, &pooltest.Fake{}, func(b *bench) {
		b.once(bob, "a") // the least recently used
		for i := range 5 {
			b.once(alice, fmt.Sprint("kind ", i))
		}
		b.stats(pool.Stats{Warm: 6})
		all := image("for all")
		all.Warm = 1
		if _, err := b.Exec(ctx, carol, all, &wire.Request{Code: "sleep 1"}, nil); err != nil {
			t.Fatal(err)
		}
		if !b.once(bob, "a") {
			t.Error("who has one gave way, and not who has five")
		}
	})
}

// Who has much gets no place of a neighbour who has less, as long as somebody has as
// many. Where nobody has, a call comes before stock.
func TestRoomForWhoHasMuch(t *testing.T) {
	// Alice has four that run, and her neighbour's is the least recently used.
	f := func(other int, kept bool) {
		t.Helper()
		run(t, pool.Options{Max: 5 + other}, &pooltest.Fake{StartDelay: 100 * time.Millisecond}, func(b *bench) {
			b.once(carol, "a")
			for i := range other {
				b.once(bob, fmt.Sprint("kind ", i))
			}
			var leases []*pool.Lease
			for range 4 {
				leases = append(leases, b.claim(alice, owned(alice, "x")))
				b.after(time.Second)
			}
			b.stats(pool.Stats{Warm: 1 + other, Leased: 4})
			leases = append(leases, b.claim(alice, owned(alice, "y")))
			b.stats(pool.Stats{Warm: other, Leased: 5})
			for _, lease := range leases {
				lease.Release()
			}
			if lease := b.claim(carol, owned(carol, "a")); lease.Warm != kept {
				t.Errorf("beside %d of another tenant, her neighbour's was kept: %v", other, lease.Warm)
			}
		})
	}
	f(6, true)
	f(5, true)
	f(4, false)
	f(0, false)
}

// In a full pool the place that a used copy leaves goes to who has least: an agent
// with many functions does not have others start cold at each call.
func TestStockOfWhoHasLeastComesFirst(t *testing.T) {
	run(t, pool.Options{Max: 6}, &pooltest.Fake{}, func(b *bench) {
		for i := range 6 {
			b.once(alice, fmt.Sprint("kind ", i))
		}
		b.stats(pool.Stats{Warm: 6})
		b.once(bob, "a") // in the place of one of hers
		for range 3 {
			if !b.once(bob, "a") {
				t.Error("bob's copy was not made anew, but one of alice's")
			}
		}
	})
}
