package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/code-sandbox/code-sandbox/test/load"
)

// small are settings of sandboxes of which several fit on a node of two
// processors, beside the pool and an agent.
func small(cpu string, change settings) settings {
	change["sandbox.cpu"], change["sandbox.memoryMiB"], change["sandbox.diskMiB"] = cpu, "256", "64"
	return change
}

// measureWarm sends a run at a time, at a rate that the pool keeps up with.
func measureWarm(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet) error {
	const target = 3
	if err := p.install(ctx, small("400m", settings{"pool.target": "3", "pool.max": "4"})); err != nil {
		return err
	}
	return p.withAgent(ctx, func() error {
		if _, err := p.call(ctx, orders{Code: "print(1)", Callers: 1, Each: 2}); err != nil { // what is learnt at the first run
			return err
		}
		return e.eachRound(ctx, func() error {
			if err := p.waitWarm(ctx, target); err != nil {
				return err
			}
			shots, err := p.call(ctx, orders{Code: "print(1)", Callers: 1, Each: e.Samples, Gap: e.Gap.Seconds(), Alone: true})
			if err != nil {
				return err
			}
			addWarm(sheet, shots)
			return nil
		})
	})
}

func addWarm(sheet *load.Sheet, shots []shot) {
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
	add := func(name string, times []time.Duration) { sheet.AddLatency(partWarm, name, times) }
	add("print(1) from the agent's container", whole)
	add("of which: agent to sidecar to pool, and back", way)
	add("of which: queue and claim", claim)
	add("of which: pool to runner, program, and back", run)
	add("beside it: a request that the sidecar refuses itself", alone)
	sheet.Add(partWarm, "runs that found no warm sandbox", "", float64(cold))
	sheet.Add(partWarm, "errors", "", float64(len(errs)))
}

// joined keeps of many errors the first three.
func joined(errs []error) error { return errors.Join(errs[:min(3, len(errs))]...) }
