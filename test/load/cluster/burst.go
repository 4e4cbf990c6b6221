package cluster

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/code-sandbox/code-sandbox/test/load"
)

const burstCallers = 30

// measureBurst has thirty callers at once meet three warm sandboxes.
func measureBurst(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet) error {
	const target = 3
	change := small("270m", settings{"pool.target": "3", "pool.max": "6", "pool.inFlightPerCaller": "30"})
	if err := p.install(ctx, change); err != nil {
		return err
	}
	return p.withAgent(ctx, func() error {
		return e.eachRound(ctx, func() error {
			if err := p.waitWarm(ctx, target); err != nil {
				return err
			}
			began := time.Now()
			shots, err := p.call(ctx, orders{Code: "print(1)", Callers: burstCallers, Each: 1})
			if err != nil {
				return err
			}
			if err := p.waitWarm(ctx, target); err != nil {
				return err
			}
			return addBurst(sheet, shots, len(p.runs.since(began)))
		})
	})
}

func addBurst(sheet *load.Sheet, shots []shot, made int) error {
	var times []time.Duration
	var errs []error
	told := 0
	for _, s := range shots {
		busy := s.Status == http.StatusTooManyRequests || s.Status == http.StatusServiceUnavailable
		if after, err := strconv.Atoi(s.RetryAfter); busy && err == nil && after > 0 {
			told++
		} else if err := s.check("1\n"); err != nil {
			errs = append(errs, err)
		} else {
			times = append(times, s.took())
		}
	}
	add := func(name, unit string, v float64) { sheet.Add(partBurst, name, unit, v) }
	add("answered", "", float64(len(times)))
	add("told when to come back", "", float64(told))
	add("neither", "", float64(len(errs)))
	add("fastest", "ms", load.Milliseconds(load.Quantile(times, 0)))
	add("median", "ms", load.Milliseconds(load.Quantile(times, 0.5)))
	add("slowest", "ms", load.Milliseconds(load.Quantile(times, 1)))
	add("pods made", "", float64(made))
	return joined(errs)
}
