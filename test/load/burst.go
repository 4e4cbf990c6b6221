package load

import (
	"context"
	"time"
)

// measureBurst sends 30 requests within a few milliseconds, in a known order.
func measureBurst(ctx context.Context, e *Env, sheet *Sheet) error {
	const callers, apart = 30, 300 * time.Microsecond
	return e.withService(ctx, func(s *Service) error {
		return e.eachRound(ctx, func() error {
			started := make([]time.Duration, callers) // in its sandbox, by the service's own timing
			t, err := burst(s, callers, apart, started)
			if err != nil {
				return err
			}
			add := func(name, unit string, v float64) { sheet.Add(PartBurst, name, unit, v) }
			add("answered of 30", "", float64(len(t.times)))
			add("fastest", "ms", Milliseconds(Quantile(t.times, 0)))
			add("median", "ms", Milliseconds(Quantile(t.times, 0.5)))
			add("slowest", "ms", Milliseconds(Quantile(t.times, 1)))
			add("places that a caller lost, at most", "", float64(placesLost(started)))
			return t.err()
		})
	}, "--python", e.Python, "--target", "3")
}

func burst(s *Service, n int, apart time.Duration, started []time.Duration) (*tally, error) {
	return callers(s.Addr, printOne, n, func(i int, c *client, req []byte, t *tally, start time.Time) {
		due := start.Add(time.Duration(i) * apart)
		sleepUntil(due)
		body, err := c.do(req)
		took := time.Since(due)
		if err == nil {
			var a *answer
			if a, err = decode(body, printOne.stdout); err == nil {
				t.times = append(t.times, took)
				waited := time.Duration((a.Timing.QueueMS + a.Timing.ClaimMS) * float64(time.Millisecond))
				started[i] = c.busy.Sub(start) + waited
				return
			}
		}
		t.errs = append(t.errs, err)
	})
}

// placesLost is the most places by which any caller started later than it asked.
func placesLost(started []time.Duration) int {
	most := 0
	for i, at := range started {
		place := 0
		for _, other := range started {
			if other < at {
				place++
			}
		}
		most = max(most, place-i)
	}
	return most
}
