package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/code-sandbox/code-sandbox/test/load"
)

// kinds are the ways in which the runner gets into a sandbox, and whether it
// imports something ahead.
var kinds = []struct {
	name   string
	change settings
}{
	{"copied by an init container", settings{"sandbox.runnerFrom": "init"}},
	{"image volume", settings{"sandbox.runnerFrom": "volume"}},
	{"image volume, numpy and pandas imported ahead", settings{"sandbox.runnerFrom": "volume", "sandbox.preload": "{numpy,pandas}"}},
}

// measureCold alternates a run that finds no sandbox with a plain pod. With one
// sandbox at most, the next is made when the one before is gone: nothing else
// is under way then.
func measureCold(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet) error {
	for _, kind := range kinds {
		change := settings{"pool.target": "1", "pool.max": "1", "sandbox.cpu": "800m"}
		for k, v := range kind.change {
			change[k] = v
		}
		if err := p.install(ctx, change); err != nil {
			return err
		}
		err := p.withAgent(ctx, func() error {
			return e.eachRound(ctx, func() error { return e.coldRound(ctx, p, sheet, kind.name) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *Env) coldRound(ctx context.Context, p *Platform, sheet *load.Sheet, kind string) error {
	before, err := p.phases(ctx)
	if err != nil {
		return err
	}
	var ours, ready, plain, address []time.Duration
	for i := range e.Cold {
		took, l, err := p.coldRun(ctx)
		if err != nil {
			return err
		}
		ours, ready = append(ours, took), append(ready, l.ready.Sub(l.made))
		like, err := p.barePod(ctx)
		if err != nil {
			return err
		}
		bare, err := p.bareLife(ctx, like, bareName(i))
		if err != nil {
			return err
		}
		plain, address = append(plain, bare.ready.Sub(bare.made)), append(address, bare.address.Sub(bare.made))
	}
	after, err := p.phases(ctx)
	if err != nil {
		return err
	}
	add := func(name, unit string, v float64) { sheet.Add(partCold, kind+": "+name, unit, v) }
	addTime := func(name string, d time.Duration) { add(name, "ms", load.Milliseconds(d)) }
	half := func(times []time.Duration) time.Duration { return load.Quantile(times, 0.5) }
	addTime("pod created to output", half(ours))
	addTime("that pod created to Ready, which nobody waits for", half(ready))
	addTime("plain pod created to Ready", half(plain))
	addTime("plain pod created to its address", half(address))
	mean := func(phase string) time.Duration {
		n := after.count[phase] - before.count[phase]
		return seconds((after.sum[phase] - before.sum[phase]) / max(1, n))
	}
	for _, phase := range []string{"create", "address", "runner", "proof"} {
		addTime("phase "+phase+", mean", mean(phase))
	}
	addTime("more than the plain pod and the proof", half(ours)-half(plain)-mean("proof"))
	return nil
}

// coldRun uses the warm sandbox up and sends the next run at once.
func (p *Platform) coldRun(ctx context.Context) (time.Duration, life, error) {
	if err := p.waitWarm(ctx, 1); err != nil {
		return 0, life{}, err
	}
	if err := sleep(ctx, 500*time.Millisecond); err != nil {
		return 0, life{}, err
	}
	shots, err := p.call(ctx, orders{Code: "print(1)", Callers: 1, Each: 2})
	if err != nil {
		return 0, life{}, err
	}
	for _, s := range shots {
		if err := s.check("1\n"); err != nil {
			return 0, life{}, err
		}
	}
	cold := shots[1]
	if cold.Answer.Warm {
		return 0, life{}, fmt.Errorf("the sandbox %s was warm, not cold", cold.Answer.SandboxID)
	}
	l, err := p.runs.wait(ctx, cold.Answer.SandboxID, func(l life) bool { return !l.gone.IsZero() })
	if err != nil {
		return 0, l, err
	}
	if l.ready.IsZero() { // it was used up before anybody had told that it was ready
		l.ready = l.gone
	}
	return cold.ended().Sub(l.made), l, p.waitWarm(ctx, 1)
}

// phases are the pool's own sums of what starts have spent their time with.
type phases struct{ sum, count map[string]float64 }

func (p *Platform) phases(ctx context.Context) (phases, error) {
	text, err := p.metrics(ctx, "code-sandbox-pool."+systemSpace+".svc")
	if err != nil {
		return phases{}, err
	}
	return readPhases(text), nil
}

func readPhases(text string) phases {
	found := phases{map[string]float64{}, map[string]float64{}}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "code_sandbox_kube_start_phase_seconds_")
		if !ok {
			continue
		}
		var phase string
		var v float64
		if n, _ := fmt.Sscanf(rest, "sum{phase=%q} %g", &phase, &v); n == 2 {
			found.sum[phase] = v
		} else if n, _ := fmt.Sscanf(rest, "count{phase=%q} %g", &phase, &v); n == 2 {
			found.count[phase] = v
		}
	}
	return found
}

func (p *Platform) metrics(ctx context.Context, host string) (string, error) {
	shots, err := p.call(ctx, orders{Get: "http://" + host + ":8902/metrics"})
	if err != nil {
		return "", err
	}
	return shots[0].Text, nil
}
