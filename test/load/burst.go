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
			answered := make([]time.Duration, callers)
			t, err := burst(s, callers, apart, answered)
			if err != nil {
				return err
			}
			add := func(name, unit string, v float64) { sheet.Add(PartBurst, name, unit, v) }
			add("answered of 30", "", float64(len(t.times)))
			add("fastest", "ms", Milliseconds(Quantile(t.times, 0)))
			add("median", "ms", Milliseconds(Quantile(t.times, 0.5)))
			add("slowest", "ms", Milliseconds(Quantile(t.times, 1)))
			add("later callers answered before one, at most", "", float64(overtaken(answered)))
			return t.err()
		})
	}, "--python", e.Python, "--target", "3")
}

func burst(s *Service, n int, apart time.Duration, answered []time.Duration) (*tally, error) {
	return callers(s.Addr, printOne, n, func(i int, c *client, req []byte, t *tally, start time.Time) {
		due := start.Add(time.Duration(i) * apart)
		sleepUntil(due)
		body, err := c.do(req)
		took := time.Since(due)
		if err == nil {
			if _, err = decode(body, printOne.stdout); err == nil {
				t.times = append(t.times, took)
				answered[i] = time.Since(start)
				return
			}
		}
		t.errs = append(t.errs, err)
	})
}

// overtaken is how many callers that asked later were answered before one, at
// most. The times are in the order of asking.
func overtaken(answered []time.Duration) int {
	most := 0
	for i, at := range answered {
		before := 0
		for _, later := range answered[i+1:] {
			if later < at {
				before++
			}
		}
		most = max(most, before)
	}
	return most
}
