package pool_test

import (
	"context"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
)

// BenchmarkClaim is the hot path: a claim of a ready sandbox and its release.
// Refill and destruction go on beside it, as they do in life.
func BenchmarkClaim(b *testing.B) {
	p, err := pool.New(pool.Options{Driver: &pooltest.Fake{}, Target: 1000, MaxTarget: 1000, Max: 3000})
	if err != nil {
		b.Fatal(err)
	}
	live, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- p.Run(live) }()
	claim := func() *pool.Lease {
		lease, err := p.Claim(b.Context(), alice, plain)
		if err != nil {
			b.Fatal(err)
		}
		return lease
	}
	claim().Release()
	b.ReportAllocs()
	var spent time.Duration
	for range b.N {
		for p.Stats().Warm == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		begun := time.Now()
		claim().Release()
		spent += time.Since(begun)
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/claim")
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkKey is the part of a claim that grows with the template.
func BenchmarkKey(b *testing.B) {
	for b.Loop() {
		_ = plain.Key()
	}
}
