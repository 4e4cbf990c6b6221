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
			seen := make([]exchange, callers)
			t, err := burst(s, apart, seen)
			if err != nil {
				return err
			}
			add := func(name, unit string, v float64) { sheet.Add(PartBurst, name, unit, v) }
			add("answered of 30", "", float64(len(t.times)))
			add("fastest", "ms", Milliseconds(Quantile(t.times, 0)))
			add("median", "ms", Milliseconds(Quantile(t.times, 0.5)))
			add("slowest", "ms", Milliseconds(Quantile(t.times, 1)))
			add("later callers answered before one, at most", "", float64(overtaken(seen)))
			return t.err()
		})
	}, "--python", e.Python, "--target", "3")
}

// exchange is when a request was really sent, which on a busy machine is not
// when it was due, and when its answer was read.
type exchange struct{ sent, answered time.Time }

func burst(s *Service, apart time.Duration, seen []exchange) (*tally, error) {
	return callers(s.Addr, printOne, len(seen), func(i int, c *client, req []byte, t *tally, start time.Time) {
		due := start.Add(time.Duration(i) * apart)
		sleepUntil(due)
		body, err := c.do(req)
		answered := time.Now()
		if err == nil {
			if _, err = decode(body, printOne.stdout); err == nil {
				t.times = append(t.times, answered.Sub(due))
				seen[i] = exchange{c.busy, answered}
				return
			}
		}
		t.errs = append(t.errs, err)
	})
}

// overtaken is how many requests that were sent after one were answered before
// it, at most.
func overtaken(all []exchange) int {
	most := 0
	for _, one := range all {
		before := 0
		for _, other := range all {
			if other.sent.After(one.sent) && other.answered.Before(one.answered) {
				before++
			}
		}
		most = max(most, before)
	}
	return most
}
