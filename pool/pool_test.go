package pool_test

import (
	"context"
	"errors"
	"fmt"
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

var (
	ctx    = context.Background()
	plain  = pool.Template{Limits: wire.DefaultLimits(), DNS: "relay"}
	alice  = pool.Caller{Tenant: "a", Name: "alice"}
	bob    = pool.Caller{Tenant: "b", Name: "bob"}
	second = &wire.Request{Code: "sleep 1"}
)

func image(name string) pool.Template {
	t := plain
	t.Image = name
	return t
}

// bench is a pool over a fake driver, running.
type bench struct {
	*pool.Pool
	t      *testing.T
	driver *pooltest.Fake
	stop   func() error
	// unclean leaves out the checks at the end.
	unclean bool
}

// run tests f against a running pool on a clock of its own. At the end the
// pool stops and nothing may be left: no sandbox, and (synctest sees to that)
// no goroutine.
func run(t *testing.T, opts pool.Options, driver *pooltest.Fake, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if opts.Driver == nil {
			opts.Driver = driver
		}
		p, err := pool.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		live, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- p.Run(live) }()
		stopped := false
		b := &bench{Pool: p, t: t, driver: driver}
		b.stop = func() error {
			stopped = true
			cancel()
			return <-done
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		f(b)
		if !stopped {
			if err := b.stop(); err != nil {
				t.Error(err)
			}
		}
		if b.unclean {
			return
		}
		if left := driver.Alive(); len(left) > 0 {
			t.Errorf("sandboxes left after the pool has stopped: %v", left)
		}
		if s := p.Stats(); s != (pool.Stats{}) {
			t.Errorf("the pool has stopped but counts %+v", s)
		}
		once(t, driver)
	})
}

// once checks that no sandbox was destroyed twice.
func once(t *testing.T, driver *pooltest.Fake) {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range driver.Destroyed() {
		if seen[id] {
			t.Errorf("%s was destroyed twice", id)
		}
		seen[id] = true
	}
}

// after lets time pass and everything settle.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) stats(want pool.Stats) {
	b.t.Helper()
	synctest.Wait()
	if got := b.Stats(); got != want {
		b.t.Errorf("stats are %+v, want %+v", got, want)
	}
}

func (b *bench) claim(c pool.Caller, t pool.Template) *pool.Lease {
	b.t.Helper()
	lease, err := b.Claim(ctx, c, t)
	if err != nil {
		b.t.Fatal(err)
	}
	return lease
}

// refused checks an error's code and that it says when to come again.
func (b *bench) refused(err error, code api.Code) *api.Error {
	b.t.Helper()
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != code {
		b.t.Fatalf("error is %v, want code %s", err, code)
	}
	if e.Executed != api.No {
		b.t.Errorf("%v: executed is %q, want no", e, e.Executed)
	}
	if e.Retry && code != api.Timeout && e.RetryAfter < time.Second {
		b.t.Errorf("%v: no time to retry is given", e)
	}
	return e
}

func TestNewNamesTheWrongSetting(t *testing.T) {
	f := func(opts pool.Options, want string) {
		t.Helper()
		_, err := pool.New(opts)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	driver := &pooltest.Fake{}
	f(pool.Options{}, "Driver must be set")
	f(pool.Options{Driver: driver, Target: -1}, "Target must be positive")
	f(pool.Options{Driver: driver, MaxWait: -time.Second}, "MaxWait must be positive")
	f(pool.Options{Driver: driver, InFlightPerCaller: -1}, "InFlightPerCaller must not be negative")
	// A target that can never be reached.
	f(pool.Options{Driver: driver, Target: 5, Max: 4}, "MaxTarget (5) must not exceed Max (4)")
	f(pool.Options{Driver: driver, Target: 5, MaxTarget: 4}, "Target (5) must not exceed MaxTarget (4)")
	f(pool.Options{Driver: driver, MaxTemplates: 1, Templates: []pool.Template{plain, image("x")}}, "MaxTemplates (1)")
}

func TestExecFillsInWhatThePoolKnows(t *testing.T) {
	opts := pool.Options{Templates: []pool.Template{plain}}
	run(t, opts, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		b.stats(pool.Stats{Starting: 3})
		// The first comes before anything is warm: 999 ms are left of a start.
		res, err := b.Exec(ctx, alice, plain, second, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.Warm || res.Timing != (wire.Timing{ClaimMS: 999, RunMS: 1000}) {
			t.Errorf("warm %v, timing %+v", res.Warm, res.Timing)
		}
		next, err := b.Exec(ctx, alice, plain, second, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !next.Warm || next.Timing != (wire.Timing{RunMS: 1000}) {
			t.Errorf("warm %v, timing %+v", next.Warm, next.Timing)
		}
		if len(res.RunID) < 20 || res.RunID == next.RunID || res.SandboxID == next.SandboxID {
			t.Errorf("ids are not unique: %q %q, %q %q", res.RunID, next.RunID, res.SandboxID, next.SandboxID)
		}
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 3})
	})
}

// The time before the start that serves a claim was asked for is waiting for a
// turn; only the rest is waiting for a sandbox.
func TestTimeInTheQueueIsNotClaimTime(t *testing.T) {
	run(t, pool.Options{Max: 1, Target: 1}, &pooltest.Fake{StartDelay: time.Second}, func(b *bench) {
		first := b.claim(alice, plain)
		go func() {
			time.Sleep(5 * time.Second)
			first.Release()
		}()
		res, err := b.Exec(ctx, alice, plain, second, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.Timing != (wire.Timing{QueueMS: 5000, ClaimMS: 1000, RunMS: 1000}) || res.Warm {
			t.Errorf("timing %+v", res.Timing)
		}
	})
}

func TestExecRefusesATimeoutBeyondTheTemplate(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{}, func(b *bench) {
		f := func(seconds float64) {
			t.Helper()
			_, err := b.Exec(ctx, alice, plain, &wire.Request{Code: "sleep 0", TimeoutSeconds: seconds}, nil)
			b.refused(err, api.BadRequest)
		}
		f(300.5)
		f(-1)
	})
}

// P1: 30 callers at once on 3 warm sandboxes.
func TestBurst(t *testing.T) {
	f := func(maxStarting, callers int) {
		t.Helper()
		opts := pool.Options{Templates: []pool.Template{plain}, MaxStarting: maxStarting}
		driver := &pooltest.Fake{StartDelay: 350 * time.Millisecond, DestroyDelay: 100 * time.Millisecond}
		run(t, opts, driver, func(b *bench) { b.burst(callers) })
	}
	f(8, 3)
	// One start at a time: no two are served in the same instant.
	f(1, 3)
	// One caller's are granted first come, first served.
	f(8, 1)
	f(1, 1)
}

// burst claims 30 sandboxes at once, for so many callers in turn.
func (b *bench) burst(names int) {
	const callers = 30
	b.after(2 * time.Second)
	b.stats(pool.Stats{Warm: 3})
	var (
		wg     sync.WaitGroup
		served [callers]time.Time
		ids    [callers]string
	)
	for i := range callers {
		c := pool.Caller{Tenant: "t", Name: fmt.Sprint("caller-", i%names)}
		wg.Go(func() {
			lease, err := b.Claim(ctx, c, plain)
			if err != nil {
				b.t.Error(err)
				return
			}
			defer lease.Release()
			served[i], ids[i] = time.Now(), lease.Sandbox.ID()
			time.Sleep(200 * time.Millisecond)
		})
		synctest.Wait() // one after the other, in the same instant
	}
	wg.Wait()
	seen := map[string]bool{}
	for i := range callers {
		if i >= names && served[i].Before(served[i-names]) {
			b.t.Errorf("claim %d of a caller was served before its claim %d", i/names, i/names-1)
		}
		if seen[ids[i]] {
			b.t.Errorf("%s served twice", ids[i])
		}
		seen[ids[i]] = true
	}
	b.after(20 * time.Second)
	if n := len(b.driver.Starts()); n > callers+3 {
		b.t.Errorf("%d sandboxes were started for %d runs and a target of 3", n, callers)
	}
	b.stats(pool.Stats{Warm: 3})
}

func TestLeaseIsReleasedOnce(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{}, func(b *bench) {
		lease := b.claim(alice, plain)
		b.stats(pool.Stats{Warm: 3, Leased: 1})
		lease.Release()
		lease.Release()
		b.stats(pool.Stats{Warm: 3})
		lease.Release()
		if n := b.driver.Attempts(lease.Sandbox.ID()); n != 1 {
			t.Errorf("destroyed %d times", n)
		}
	})
}

func TestRunOnce(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{}, func(b *bench) {
		if err := b.Run(ctx); err == nil {
			t.Error("a second Run is accepted")
		}
	})
}
