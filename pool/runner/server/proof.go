package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	// silence is how long nothing may answer in a round: longer than any answer
	// within a cluster takes.
	silence     = 300 * time.Millisecond
	roundPause  = 10 * time.Millisecond
	maxCanaries = 16
	maxProof    = time.Minute
)

// prover shows that this pod's network is closed, and that it is there at all.
type prover struct {
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	lookup func(ctx context.Context) error // nil error means that a server answered
}

func newProver() *prover {
	resolver := &net.Resolver{PreferGo: true}
	return &prover{
		dial: (&net.Dialer{}).DialContext,
		lookup: func(ctx context.Context) error {
			_, err := resolver.LookupHost(ctx, lookupName())
			if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
				return nil // that there is none is an answer
			}
			return err
		},
	}
}

// lookupName is a name that the cluster's own DNS can answer for: the pod's first
// search domain.
func lookupName() string {
	b, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "search" {
			return strings.TrimSuffix(f[1], ".") + "."
		}
	}
	return "localhost.localdomain."
}

func checkProof(p wire.Proof) error {
	if len(p.Canaries) > maxCanaries {
		return fmt.Errorf("a proof has at most %d canaries", maxCanaries)
	}
	if p.WithinMS < 0 || time.Duration(p.WithinMS)*time.Millisecond > maxProof {
		return fmt.Errorf("within_ms must be between 0 and %d", maxProof.Milliseconds())
	}
	for _, c := range p.Canaries {
		host, _, err := net.SplitHostPort(c)
		if err != nil || net.ParseIP(host) == nil {
			return fmt.Errorf("the canary %.100q is not an IP and a port", c)
		}
	}
	return nil
}

// prove dials all canaries until none answers, and in the same round has a lookup
// answered if one must be.
func (v *prover) prove(ctx context.Context, p wire.Proof) (open []string, reason string, seen wire.ProofSeen) {
	began := time.Now()
	defer func() { seen.MS = float64(time.Since(began).Microseconds()) / 1000 }()
	if len(p.Canaries) == 0 && !p.DNS {
		return nil, "", seen
	}
	limit := began.Add(time.Duration(p.WithinMS) * time.Millisecond)
	for {
		// A round that is cut short by the bound would show nothing.
		if len(p.Canaries) > 0 && time.Until(limit) < silence {
			if seen.Tries == 0 {
				reason = fmt.Sprintf("The bound of the proof is shorter than the %s that one takes.", silence)
			}
			return open, reason, seen
		}
		seen.Tries++
		var missed error
		open, missed = v.round(ctx, p)
		switch {
		case ctx.Err() != nil:
			return open, "The proof was given up.", seen
		case len(open) > 0:
			reason = ""
		case missed == nil:
			return nil, "", seen
		default:
			reason = fmt.Sprintf("No DNS server answered, so that the silence of others shows nothing: %v.", missed)
		}
		if time.Now().Add(roundPause).After(limit) {
			return open, reason, seen
		}
		time.Sleep(roundPause)
	}
}

// round tries everything once, side by side: which canaries answered, and why the
// lookup did not.
func (v *prover) round(ctx context.Context, p wire.Proof) (open []string, missed error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	answered := make([]bool, len(p.Canaries))
	var wg sync.WaitGroup
	for i, canary := range p.Canaries {
		wg.Go(func() {
			if conn, err := v.dial(ctx, "tcp", canary); err == nil {
				conn.Close()
				answered[i] = true
			}
		})
	}
	if p.DNS {
		missed = v.lookup(ctx)
	}
	wg.Wait()
	for i, canary := range p.Canaries {
		if answered[i] {
			open = append(open, canary)
		}
	}
	return open, missed
}
