package pool_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func TestStopFinishesRunsAndDestroysAll(t *testing.T) {
	opts := pool.Options{Templates: []pool.Template{plain}, DrainTimeout: 10 * time.Second}
	run(t, opts, &pooltest.Fake{StartDelay: time.Millisecond, DestroyDelay: time.Second}, func(b *bench) {
		b.after(time.Second)
		var short, long error
		var wg sync.WaitGroup
		wg.Go(func() { _, short = b.Exec(ctx, alice, plain, &wire.Request{Code: "sleep 5"}, nil) })
		wg.Go(func() { _, long = b.Exec(ctx, alice, plain, &wire.Request{Code: "sleep 100"}, nil) })
		synctest.Wait()
		stopped := make(chan error)
		begun := time.Now()
		go func() { stopped <- b.stop() }()
		b.after(2 * time.Second)
		b.stats(pool.Stats{Leased: 2})
		_, err := b.Claim(ctx, alice, plain)
		b.refused(err, api.NoCapacity)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		wg.Wait()
		if short != nil {
			t.Errorf("a run that fits in the drain time was ended: %v", short)
		}
		if e, ok := errors.AsType[*api.Error](long); !ok || e.Code != api.SandboxLost || e.Executed != api.Maybe {
			t.Errorf("a run that outlasts the drain time got %v", long)
		}
		if took := time.Since(begun); took > 13*time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

// Who waits when the pool stops is told at once.
func TestStopRefusesThoseWhoWait(t *testing.T) {
	run(t, pool.Options{}, &pooltest.Fake{StartDelay: time.Minute}, func(b *bench) {
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = b.Claim(ctx, alice, plain) })
		synctest.Wait()
		begun := time.Now()
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		b.refused(err, api.NoCapacity)
		if took := time.Since(begun); took > 0 {
			t.Errorf("stopping took %v: the start was not ended", took)
		}
	})
}

// A start that the pool's end cuts off is no failure, whichever of the two is
// seen first.
func TestStopIsNoFailure(t *testing.T) {
	for range 50 {
		var said bytes.Buffer
		log := hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: &said})
		run(t, pool.Options{Templates: []pool.Template{plain}, Logger: log}, &pooltest.Fake{StartDelay: time.Minute}, func(b *bench) {
			b.stats(pool.Stats{Starting: 3})
			if err := b.stop(); err != nil {
				t.Error(err)
			}
		})
		if said.Len() > 0 {
			t.Fatalf("the log says %s", &said)
		}
	}
}
