package server_test

import (
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// BenchmarkRun is from the request to the result of print(1) on a fresh runner,
// and tells how long a runner takes to be fresh beside it.
func BenchmarkRun(b *testing.B) {
	if _, err := builtRunner(); err != nil {
		b.Fatal(err)
	}
	var starts time.Duration
	for b.Loop() {
		b.StopTimer()
		began := time.Now()
		p := startPod(b, nil)
		conn := p.connect()
		starts += time.Since(began)
		b.StartTimer()
		res, err := conn.Run(b.Context(), &wire.Request{Code: "print(1)"}, nil)
		b.StopTimer()
		if err != nil || res.Stdout != "1\n" {
			b.Fatalf("%+v, %v", res, err)
		}
		p.waitGone(5 * time.Second)
		b.StartTimer()
	}
	b.ReportMetric(float64(starts.Microseconds())/1000/float64(b.N), "ms-to-fresh")
}
