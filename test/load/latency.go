package load

import (
	"context"
	"fmt"
	"time"
)

func measureStart(ctx context.Context, e *Env, sheet *Sheet) error {
	return e.eachRound(ctx, func() error {
		s, err := StartService(ctx, e.Binary, "--python", e.Python)
		if err != nil {
			return err
		}
		sheet.Add(PartStart, "start to ready", "ms", Milliseconds(time.Since(s.began)))
		t, err := closedLoop(s.Addr, printOne, 1, time.Millisecond)
		if err == nil {
			err = t.err()
		}
		sheet.Add(PartStart, "start to the first answer", "ms", Milliseconds(time.Since(s.began)))
		stopping := time.Now()
		if stopErr := s.Stop(); err == nil {
			err = stopErr
		}
		sheet.Add(PartStart, "SIGTERM to the end of the process", "ms", Milliseconds(time.Since(stopping)))
		return err
	})
}

// measureOpen alternates the load with both baselines, so that all three see
// the same machine.
func measureOpen(ctx context.Context, e *Env, sheet *Sheet) error {
	return e.withService(ctx, func(s *Service) error {
		return e.eachRound(ctx, func() error {
			t, err := openLoop(s.Addr, printOne, 100, e.Length)
			if err != nil {
				return err
			}
			sheet.AddLatency(PartOpen, "print(1) over HTTP", t.times)
			add := func(name, unit string, v float64) { sheet.Add(PartOpen, name, unit, v) }
			add("of which in the sandbox, p50", "ms", Milliseconds(Quantile(t.inside, 0.5)))
			add("requests sent late by the generator, p99", "ms", Milliseconds(Quantile(t.late, 0.99)))
			add("errors", "", float64(len(t.errs)))
			add("runs that found no warm sandbox", "", float64(t.cold))

			plain, err := e.plainPython().repeat(ctx, e.Baseline)
			if err != nil {
				return err
			}
			sheet.AddLatency(PartOpen, "python3 -c 'print(1)', no sandbox", plain)
			wrapped, err := e.bubblewrap().repeat(ctx, e.Baseline)
			if err != nil {
				return err
			}
			sheet.AddLatency(PartOpen, "bwrap --unshare-all python3 -c 'print(1)'", wrapped)
			ours := Quantile(t.times, 0.5)
			add("python3 -c is slower by", "", ratio(Quantile(plain, 0.5), ours))
			add("bwrap is slower by", "", ratio(Quantile(wrapped, 0.5), ours))
			return nil
		})
	}, "--python", e.Python)
}

func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func measureClosed(ctx context.Context, e *Env, sheet *Sheet) error {
	const callers = 4
	return e.withService(ctx, func(s *Service) error {
		return e.eachRound(ctx, func() error {
			add := func(name, unit string, v float64) { sheet.Add(PartClosed, name, unit, v) }
			service, below := s.cpu()
			t, err := closedLoop(s.Addr, printOne, callers, e.Length)
			if err != nil {
				return err
			}
			if err := settle(ctx, 300*time.Millisecond); err != nil { // the last are taken apart
				return err
			}
			serviceAfter, belowAfter := s.cpu()
			add("fresh sandboxes", "runs/s", t.rate())
			sheet.AddLatency(PartClosed, "print(1) over HTTP", t.times)
			add("errors", "", float64(len(t.errs)))
			add("sandboxes used twice", "", float64(t.twice()))
			runs := time.Duration(max(1, len(t.times)))
			add("CPU a run: the service", "ms", Milliseconds((serviceAfter-service)/runs))
			add("CPU a run: zygotes and sandboxes", "ms", Milliseconds((belowAfter-below)/runs))

			plain, err := e.plainPython().closedLoop(ctx, callers, e.Length)
			if err != nil {
				return err
			}
			add("python3 -c 'print(1)', no sandbox, 4 callers", "runs/s", plain)
			add("times what python3 -c reaches", "", t.rate()/plain)
			return nil
		})
	}, "--python", e.Python)
}

func measureGrowth(ctx context.Context, e *Env, sheet *Sheet) error {
	return e.withService(ctx, func(s *Service) error {
		for _, callers := range []int{1, 4, 16, 64} {
			err := e.eachRound(ctx, func() error {
				t, err := closedLoop(s.Addr, printOne, callers, e.Length)
				if err != nil {
					return err
				}
				name := fmt.Sprintf("callers: %d", callers)
				sheet.Add(PartGrowth, name, "runs/s", t.rate())
				sheet.AddLatency(PartGrowth, name, t.times)
				sheet.Add(PartGrowth, name+", errors", "", float64(len(t.errs)))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}, "--python", e.Python)
}
