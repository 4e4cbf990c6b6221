package pool_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// TestAnything does random things to a pool and checks after each what must
// always hold. A failure names the seed that repeats it.
func TestAnything(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			opts := pool.Options{
				Max: 4 + r.IntN(12), Target: 1 + r.IntN(4), MaxTemplates: 1 + r.IntN(3),
				MaxStarting: 1 + r.IntN(8), MaxDestroying: 1 + r.IntN(4),
				QueueLimit: 1 + r.IntN(40), QueuePerCaller: 1 + r.IntN(20), InFlightPerCaller: r.IntN(10),
				TemplateIdle: 20 * time.Second, MaxWait: 5 * time.Second, DrainTimeout: 5 * time.Second,
			}
			driver := &pooltest.Fake{
				StartDelay:   time.Duration(r.IntN(500)) * time.Millisecond,
				DestroyDelay: time.Duration(r.IntN(500)) * time.Millisecond,
			}
			run(t, opts, driver, func(b *bench) {
				w := &chaos{bench: b, rand: r, opts: opts, served: map[string]bool{}}
				for range 200 {
					w.act()
					w.check()
				}
				driver.FailStarts(nil)
				driver.FailDestroys(nil)
				b.after(time.Minute)
				w.wg.Wait()
				w.check()
				// Whatever happened, the pool has come round.
				if s := b.Stats(); s.Leased+s.Destroying+s.Waiting != 0 {
					t.Errorf("a minute later the pool counts %+v", s)
				}
				b.claim(pool.Caller{Name: "last"}, plain).Release()
			})
		})
	}
}

// chaos is one such test under way.
type chaos struct {
	*bench
	rand    *rand.Rand
	opts    pool.Options
	planted int
	wg      sync.WaitGroup

	mu     sync.Mutex
	served map[string]bool
}

func (w *chaos) act() {
	r := w.rand
	switch r.IntN(20) {
	case 0:
		w.driver.FailStarts(func(pool.Template) error { return errors.New("no") })
	case 1:
		w.driver.FailStarts(func(pool.Template) error { return api.Errorf(api.NoCapacity, "no image") })
	case 2:
		w.driver.FailDestroys(func(string) error { return errors.New("refused") })
	case 3, 4:
		w.driver.FailStarts(nil)
	case 5, 6:
		w.driver.FailDestroys(nil)
	case 7:
		w.driver.BreakWatch()
	case 8:
		w.planted++
		w.driver.Plant(fmt.Sprint("planted-", w.planted))
	case 9:
		if alive := w.driver.Alive(); len(alive) > 0 {
			w.driver.Lose(alive[r.IntN(len(alive))], r.IntN(2) == 0)
		}
	case 10, 11, 12:
		w.after(time.Duration(r.IntN(4000)) * time.Millisecond)
	default:
		for range 1 + r.IntN(6) {
			w.caller()
		}
	}
}

// caller claims or runs, stays a while, leaves early or forgets to release.
func (w *chaos) caller() {
	r := w.rand
	c := pool.Caller{Tenant: fmt.Sprint(r.IntN(2)), Name: fmt.Sprint(r.IntN(3))}
	t := image([]string{"x", "y", "z", "u"}[r.IntN(4)])
	t.Limits.MaxRun = 10 * time.Second
	hold, forget, patience := r.IntN(3000), r.IntN(10) == 0, r.IntN(8000)
	exec := r.IntN(2) == 0
	w.wg.Go(func() {
		leaving, cancel := context.WithTimeout(ctx, time.Duration(patience)*time.Millisecond)
		defer cancel()
		if exec {
			res, err := w.Exec(leaving, c, t, &wire.Request{Code: fmt.Sprint("sleep ", float64(hold)/1000)}, nil)
			if err == nil {
				w.serves(res.SandboxID)
			} else if _, ok := errors.AsType[*api.Error](err); !ok {
				w.t.Errorf("not an *api.Error: %v", err)
			}
			return
		}
		lease, err := w.Claim(leaving, c, t)
		if err != nil {
			if e, ok := errors.AsType[*api.Error](err); !ok || e.Executed != api.No {
				w.t.Errorf("a claim failed with %#v", err)
			}
			return
		}
		w.serves(lease.Sandbox.ID())
		time.Sleep(time.Duration(hold) * time.Millisecond)
		if !forget {
			lease.Release()
			lease.Release()
		}
	})
}

func (w *chaos) serves(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.served[id] || strings.HasPrefix(id, "planted") {
		w.t.Errorf("%s served, and must not", id)
	}
	w.served[id] = true
}

func (w *chaos) check() {
	w.t.Helper()
	synctest.Wait()
	s := w.Stats()
	if n := s.Warm + s.Starting + s.Leased + s.Destroying; n > w.opts.Max+w.planted {
		w.t.Errorf("%d sandboxes are counted, more than %d: %+v", n, w.opts.Max, s)
	}
	if n := w.driver.Peak(); n > w.opts.Max+w.planted {
		w.t.Errorf("%d sandboxes existed at once, more than %d", n, w.opts.Max)
	}
	if s.Starting > w.opts.MaxStarting {
		w.t.Errorf("%d start at once, more than %d", s.Starting, w.opts.MaxStarting)
	}
	if most := w.opts.MaxTemplates * min(32, w.opts.Max); s.Warm > most {
		w.t.Errorf("%d are warm, more than %d", s.Warm, most)
	}
	if s.Waiting > w.opts.QueueLimit {
		w.t.Errorf("%d wait, more than %d", s.Waiting, w.opts.QueueLimit)
	}
	if n := len(w.driver.Alive()); n > s.Warm+s.Leased+s.Destroying+w.planted {
		w.t.Errorf("%d sandboxes stand, the pool knows of %+v", n, s)
	}
}
