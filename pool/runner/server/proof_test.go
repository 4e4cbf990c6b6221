package server

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// network is a pod's network as the prover meets it.
type network struct {
	openUntil time.Duration // from the start on, canaries answer until then
	refuses   bool          // what is closed says so at once
	deafUntil time.Duration // until then, no DNS server answers
	slow      time.Duration // how long an answer takes
}

func (n network) prover() *prover {
	began := time.Now()
	wait := func(ctx context.Context, d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return &prover{
		dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			if time.Since(began) < n.openUntil && !strings.HasPrefix(addr, "192.0.2.") {
				if err := wait(ctx, n.slow); err != nil {
					return nil, err
				}
				ours, theirs := net.Pipe()
				theirs.Close()
				return ours, nil
			}
			if n.refuses {
				return nil, errors.New("refused")
			}
			return nil, wait(ctx, time.Hour)
		},
		lookup: func(ctx context.Context) error {
			if time.Since(began) < n.deafUntil {
				return wait(ctx, time.Hour)
			}
			return wait(ctx, time.Millisecond)
		},
	}
}

func TestProof(t *testing.T) {
	f := func(n network, p wire.Proof, closed bool, open []string, tries int, takes time.Duration, reason string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			t.Helper()
			began := time.Now()
			gotOpen, gotReason, seen := n.prover().prove(t.Context(), p)
			took := time.Since(began)
			if (len(gotOpen) == 0 && gotReason == "") != closed || !slices.Equal(gotOpen, open) || !strings.Contains(gotReason, reason) {
				t.Errorf("open %q, reason %q", gotOpen, gotReason)
			}
			if seen.Tries != tries || took != takes || seen.MS != float64(takes.Milliseconds()) {
				t.Errorf("%d tries, %s, told as %g ms", seen.Tries, took, seen.MS)
			}
		})
	}
	const ms = time.Millisecond
	two := []string{"10.0.0.1:1", "10.0.0.2:2"}
	all := wire.Proof{Canaries: two, DNS: true, WithinMS: 2000}
	// Nothing to show.
	f(network{}, wire.Proof{}, true, nil, 0, 0, "")
	// Closed by silence from the start, and by refusal, which is told sooner.
	f(network{}, all, true, nil, 1, 300*ms, "")
	f(network{refuses: true}, all, true, nil, 1, 1*ms, "")
	// Open at first.
	f(network{openUntil: 70 * ms, refuses: true}, all, true, nil, 8, 78*ms, "")
	// Open, with answers that take long but not too long.
	f(network{openUntil: 500 * ms, slow: 250 * ms}, all, true, nil, 3, 820*ms, "")
	// Open for ever: one of two, and both.
	f(network{openUntil: time.Hour}, wire.Proof{Canaries: []string{"10.0.0.1:1", "192.0.2.1:2"}, WithinMS: 700}, false, []string{"10.0.0.1:1"}, 2, 620*ms, "")
	// Closed, but the network itself is not there: silence shows nothing.
	f(network{deafUntil: time.Hour}, all, false, nil, 6, 1860*ms, "No DNS server answered")
	// The network comes late.
	f(network{deafUntil: 400 * ms, refuses: true}, all, true, nil, 3, 621*ms, "")
	// A proof without DNS needs none.
	f(network{deafUntil: time.Hour, refuses: true}, wire.Proof{Canaries: two, WithinMS: 500}, true, nil, 1, 0, "")
	// A bound in which nothing could be shown.
	f(network{}, wire.Proof{Canaries: two, WithinMS: 200}, false, nil, 0, 0, "shorter than")
}

// The real network of this machine: a listener is found, a closed port is not.
func TestProofOnLoopback(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var met atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			met.Add(1)
			conn.Close()
		}
	}()
	p := wire.Proof{Canaries: []string{listener.Addr().String()}, WithinMS: 400}
	open, _, _ := newProver().prove(t.Context(), p)
	if !slices.Equal(open, p.Canaries) || met.Load() == 0 {
		t.Errorf("open %q, met %d", open, met.Load())
	}
	listener.Close()
	if open, reason, seen := newProver().prove(t.Context(), p); len(open) > 0 || reason != "" || seen.Tries != 1 {
		t.Errorf("open %q, reason %q, %d tries", open, reason, seen.Tries)
	}
}
