package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/code-sandbox/code-sandbox/test/load"
)

// small are settings of sandboxes of which several fit on a node of two
// processors, beside the pool and an agent.
func small(cpu string, change settings) settings {
	change["sandbox.cpu"], change["sandbox.memoryMiB"], change["sandbox.diskMiB"] = cpu, "256", "64"
	return change
}

const (
	// warmTarget is how many runs follow each other before all is warm again.
	warmTarget = 6
	// hurriedGap is less than the node takes to replace a pod.
	hurriedGap = 1500 * time.Millisecond
)

// measureWarm sends a run at a time, when the node has replaced the last one's
// pod.
func measureWarm(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet) error {
	return measureGap(ctx, e, p, sheet, partWarm, e.Gap)
}

// measureHurried sends them while it still does.
func measureHurried(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet) error {
	return measureGap(ctx, e, p, sheet, partHurried, hurriedGap)
}

func measureGap(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet, part string, gap time.Duration) error {
	if err := p.install(ctx, small("400m", settings{"pool.target": fmt.Sprint(warmTarget), "pool.max": "9"})); err != nil {
		return err
	}
	return p.withAgent(ctx, func() error {
		if _, err := p.call(ctx, orders{Code: "print(1)", Callers: 1, Each: 2}); err != nil { // what is learnt at the first run
			return err
		}
		return e.eachRound(ctx, func() error {
			shots, err := p.inSeries(ctx, e.Samples, gap)
			if err == nil {
				addWarm(sheet, part, shots)
			}
			return err
		})
	})
}

// inSeries sends n runs, in series of as many as are warm, so that none meets a
// pod that a busy machine has not made yet.
func (p *Platform) inSeries(ctx context.Context, n int, gap time.Duration) ([]shot, error) {
	var shots []shot
	for len(shots) < n {
		if err := errors.Join(p.waitWarm(ctx, warmTarget), p.waitHeld(ctx, warmTarget)); err != nil {
			return nil, err
		}
		series, err := p.call(ctx, orders{Code: "print(1)", Callers: 1, Each: min(warmTarget, n-len(shots)), Gap: gap.Seconds(), Alone: true})
		if err != nil {
			return nil, err
		}
		shots = append(shots, series...)
	}
	return shots, nil
}

// waitHeld waits until the pool itself counts n sandboxes as warm: a pod is ready
// before its runner has shown that it is closed.
func (p *Platform) waitHeld(ctx context.Context, n int) error {
	want := fmt.Sprintf("code_sandbox_pool_sandboxes{state=\"warm\"} %d\n", n)
	return within(ctx, "the pool's sandboxes are warm", func() error {
		text, err := p.metrics(ctx, "code-sandbox-pool."+systemSpace+".svc")
		if err == nil && !strings.Contains(text, want) {
			err = errors.New("the pool counts another number")
		}
		return err
	})
}

func addWarm(sheet *load.Sheet, part string, shots []shot) {
	var whole, alone, way, claim, run []time.Duration
	var errs []error
	cold := 0
	for _, s := range shots {
		if err := s.check("1\n"); err != nil {
			errs = append(errs, err)
			continue
		}
		if !s.Answer.Warm {
			cold++
			continue
		}
		t := s.Answer.Timing
		claims, runs, a := millis(t.QueueMS+t.ClaimMS), millis(t.RunMS), seconds(s.Alone)
		whole, alone, claim, run = append(whole, s.took()), append(alone, a), append(claim, claims), append(run, runs)
		way = append(way, max(0, seconds(s.Ended-s.Began)-claims-runs))
	}
	add := func(name string, times []time.Duration) { sheet.AddLatency(part, name, times) }
	add("print(1) from the agent's container", whole)
	add("of which: agent to sidecar to pool, and back", way)
	add("of which: queue and claim", claim)
	add("of which: pool to runner, program, and back", run)
	add("beside it: a request that the sidecar refuses itself", alone)
	sheet.Add(part, "runs that found no warm sandbox", "", float64(cold))
	sheet.Add(part, "errors", "", float64(len(errs)))
}

// joined keeps of many errors the first three.
func joined(errs []error) error { return errors.Join(errs[:min(3, len(errs))]...) }
