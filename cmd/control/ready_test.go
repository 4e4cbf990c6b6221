package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A pool is ready from its first sandbox on, also when it has none left and can
// make no other.
func TestReadyStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &pooltest.Fake{}
		broken := func(pool.Template) error { return errors.New("no room") }
		driver.FailStarts(broken)
		template := pool.Template{Image: "python", Limits: wire.DefaultLimits()}
		p, err := pool.New(pool.Options{Driver: driver, Templates: []pool.Template{template}, Target: 1, Max: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		s := &poolService{pool: p}
		synctest.Wait()
		if s.ready() == nil {
			t.Error("it is ready without a sandbox")
		}
		driver.FailStarts(nil)
		lease, err := p.Claim(t.Context(), pool.Caller{Tenant: "t", Name: "a"}, template)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ready(); err != nil {
			t.Errorf("with a sandbox: %v", err)
		}
		driver.FailStarts(broken)
		lease.Release()
		synctest.Wait()
		if stats := p.Stats(); stats.Warm+stats.Leased > 0 {
			t.Errorf("there is a sandbox: %+v", stats)
		}
		if err := s.ready(); err != nil {
			t.Errorf("with none left: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
