package pooltest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// The fake keeps what is asked of every driver, so that what the pool is
// tested with behaves as what it is used with.
func TestFakeConforms(t *testing.T) {
	open := func(*testing.T) pool.Driver {
		return &pooltest.Fake{StartDelay: 5 * time.Millisecond, DestroyDelay: 5 * time.Millisecond}
	}
	pooltest.Conformance(t, open, pool.Template{Limits: wire.DefaultLimits(), DNS: "relay"})
}

// What tests of the pool set up does happen.
func TestFakeFailsAsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &pooltest.Fake{StartDelay: time.Second}
		no := errors.New("no")
		d.FailStarts(func(pool.Template) error { return no })
		begun := time.Now()
		if _, err := d.Start(t.Context(), pool.Template{}); !errors.Is(err, no) || time.Since(begun) != time.Second {
			t.Errorf("start fails with %v after %v", err, time.Since(begun))
		}
		d.FailStarts(nil)
		s, err := d.Start(t.Context(), pool.Template{})
		if err != nil {
			t.Fatal(err)
		}
		d.FailDestroys(func(string) error { return no })
		if err := d.Destroy(t.Context(), s.ID()); !errors.Is(err, no) || len(d.Alive()) != 1 {
			t.Errorf("destroy fails with %v, %d are left", err, len(d.Alive()))
		}
		d.Lose(s.ID(), true)
		_, err = s.Run(t.Context(), &wire.Request{Code: "sleep 1"}, nil)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Executed != api.No {
			t.Errorf("a lost sandbox runs with %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		events, err := d.Watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		d.BreakWatch()
		if e := <-events; e.ID != s.ID() {
			t.Errorf("event is %+v", e)
		}
		if _, open := <-events; open {
			t.Error("the watch goes on")
		}
		cancel() // closes nothing twice
		synctest.Wait()
	})
}
