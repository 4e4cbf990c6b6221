package pool_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// P6: a sandbox that is lost before anything was sent is replaced by another.
func TestLostBeforeTheRun(t *testing.T) {
	run(t, pool.Options{Templates: []pool.Template{plain}}, &pooltest.Fake{StartDelay: 10 * time.Millisecond}, func(b *bench) {
		b.after(time.Second)
		alive := b.driver.Alive()
		b.driver.Lose(alive[0], false)
		b.driver.Lose(alive[1], false)
		res, err := b.Exec(ctx, alice, plain, second, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.SandboxID != alive[2] {
			t.Errorf("ran in %s", res.SandboxID)
		}
		b.stats(pool.Stats{Warm: 3})
	})
}

// Three sandboxes are tried, no more; the error says that nothing ran.
func TestLostThreeTimes(t *testing.T) {
	run(t, pool.Options{Target: 5, Templates: []pool.Template{plain}}, &pooltest.Fake{}, func(b *bench) {
		for _, id := range b.driver.Alive() {
			b.driver.Lose(id, false)
		}
		_, err := b.Exec(ctx, alice, plain, second, nil)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.SandboxLost || e.Executed != api.No {
			t.Fatalf("error is %v", err)
		}
		b.after(time.Second)
		if n := len(b.driver.Destroyed()); n != 3 {
			t.Errorf("%d sandboxes were tried", n)
		}
	})
}

// Once anything may have run, or the driver says that another sandbox would
// not help, there is no second try.
func TestNoSecondTry(t *testing.T) {
	f := func(failure error, code api.Code, executed api.Executed) {
		t.Helper()
		tries := 0
		driver := &pooltest.Fake{Run: func(context.Context, *pooltest.FakeSandbox, *wire.Request, wire.Sink) (*wire.Result, error) {
			tries++
			return nil, failure
		}}
		run(t, pool.Options{}, driver, func(b *bench) {
			_, err := b.Exec(ctx, alice, plain, second, nil)
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Code != code || e.Executed != executed || tries != 1 {
				t.Errorf("%d tries, error is %#v", tries, err)
			}
		})
	}
	// The sandbox went away while the program ran.
	f(api.Errorf(api.SandboxLost, "gone").MaybeRan(), api.SandboxLost, api.Maybe)
	// An error that says nothing of what ran.
	f(errors.New("broken pipe"), api.SandboxLost, api.Maybe)
	// The request itself is at fault.
	f(api.Errorf(api.BadRequest, "a file name leaves the folder"), api.BadRequest, api.No)
	// A driver that breaks its word.
	f(nil, api.SandboxLost, api.Maybe)
}

// A caller that leaves ends its run.
func TestCallerLeavesItsRun(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{}, func(b *bench) {
		leaving, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := b.Exec(leaving, alice, plain, &wire.Request{Code: "sleep 60"}, nil)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.Timeout || e.Executed != api.Maybe {
			t.Errorf("error is %v", err)
		}
		b.after(time.Second)
		b.stats(pool.Stats{Warm: 3})
	})
}

// A sandbox that does not answer ends with the run's time and the grace.
func TestSandboxThatDoesNotAnswer(t *testing.T) {
	run(t, pool.Options{Grace: 5 * time.Second}, &pooltest.Fake{}, func(b *bench) {
		begun := time.Now()
		_, err := b.Exec(ctx, alice, plain, &wire.Request{Code: "sleep 60", TimeoutSeconds: 2}, nil)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.Timeout || e.Executed != api.Maybe {
			t.Errorf("error is %v", err)
		}
		if took := time.Since(begun); took != 7*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
