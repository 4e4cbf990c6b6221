package cluster

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/test/load"
)

// measureRefill alternates as many callers as there can be sandboxes, who use
// each up as soon as it is made, with as many makers of plain pods.
func measureRefill(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet) error {
	const most = 3
	if err := p.install(ctx, small("270m", settings{"pool.target": "3", "pool.max": "3"})); err != nil {
		return err
	}
	return p.withAgent(ctx, func() error {
		return e.eachRound(ctx, func() error {
			if err := p.waitWarm(ctx, most); err != nil {
				return err
			}
			like, err := p.barePod(ctx)
			if err != nil {
				return err
			}
			ours, err := e.refillRate(ctx, p, most)
			if err != nil {
				return err
			}
			if err := p.waitWarm(ctx, most); err != nil {
				return err
			}
			// The plain pods need the room.
			plain, err := e.churnRate(ctx, p, like, most)
			if err != nil {
				return err
			}
			sheet.Add(partRefill, "sandboxes made, used and destroyed", "a second", ours)
			sheet.Add(partRefill, "plain pods made, ready and deleted", "a second", plain)
			sheet.Add(partRefill, "share of the plain pods' rate", "", ours/plain)
			return nil
		})
	})
}

// refillRate is how many runs end a second once the sandboxes that were warm
// are used up.
func (e *Env) refillRate(ctx context.Context, p *Platform, callers int) (float64, error) {
	shots, err := p.call(ctx, orders{Code: "print(1)", Callers: callers, Seconds: e.Length.Seconds()})
	if err != nil {
		return 0, err
	}
	n, first, last := 0, 0.0, 0.0
	var errs []error
	for _, s := range shots {
		if err := s.check("1\n"); err != nil {
			errs = append(errs, err)
			continue
		}
		if s.Answer.Warm {
			continue
		}
		if n == 0 || s.Ended < first {
			first = s.Ended
		}
		last = max(last, s.Ended)
		n++
	}
	return float64(n-1) / (last - first), joined(errs)
}

// churnRate is the same of plain pods: counted are those that became ready
// after the first.
func (e *Env) churnRate(ctx context.Context, p *Platform, like *corev1.Pod, makers int) (float64, error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	var ready []time.Time
	end := time.Now().Add(e.Length)
	for i := range makers {
		wg.Go(func() {
			for time.Now().Before(end) {
				l, err := p.bareLife(ctx, like, bareName(i))
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else {
					ready = append(ready, l.ready)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if len(errs) > 0 || len(ready) < 2 {
		return 0, joined(errs)
	}
	first, last := ready[0], ready[0]
	for _, t := range ready {
		if t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	return float64(len(ready)-1) / last.Sub(first).Seconds(), nil
}
