package local

import (
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// BenchmarkStart is what a warm sandbox costs to make and to take away.
func BenchmarkStart(b *testing.B) {
	d := newDriver(b, nil)
	run(b, d, "") // the zygotes are there
	run(b, d, "")
	b.ReportAllocs()
	for b.Loop() {
		s, err := d.Start(b.Context(), template())
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Destroy(b.Context(), s.ID()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRun is from the claim to the answer; making the sandbox is not in it.
func BenchmarkRun(b *testing.B) {
	d := newDriver(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		s, err := d.Start(b.Context(), template())
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		res, err := s.Run(b.Context(), &wire.Request{Code: "print(1)", TimeoutSeconds: 20}, nil)
		b.StopTimer()
		if err != nil || res.Stdout != "1\n" {
			b.Fatalf("%v: %+v", err, res)
		}
		if err := d.Destroy(b.Context(), s.ID()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
