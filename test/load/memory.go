package load

import (
	"context"
	"fmt"
	"time"
)

const mebi = 1 << 20

// measureMemory compares a service with few warm sandboxes to one with many:
// the difference is what one more costs, all sharing accounted for.
func measureMemory(ctx context.Context, e *Env, sheet *Sheet) error {
	if err := e.memoryPerSandbox(ctx, sheet, "", e.Python); err != nil {
		return err
	}
	return e.memoryPerSandbox(ctx, sheet, ", numpy and pandas imported", e.Data)
}

func (e *Env) memoryPerSandbox(ctx context.Context, sheet *Sheet, suffix, python string) error {
	const few, many = 3, 23
	return e.eachRound(ctx, func() error {
		at := func(target int) (service, below, charged int64, err error) {
			err = e.withIdleService(ctx, func(s *Service) error {
				if err := settle(ctx, 2*time.Second); err != nil {
					return err
				}
				service, below = s.pssOf()
				use := s.cgroups()
				if len(use) > 0 && len(use) != target {
					return fmt.Errorf("%d sandboxes are there, not %d", len(use), target)
				}
				for _, n := range use {
					charged += n / int64(len(use))
				}
				return nil
			}, "--python", python, "--target", fmt.Sprint(target), "--max", "32")
			return
		}
		_, less, _, err := at(few)
		if err != nil {
			return err
		}
		service, more, charged, err := at(many)
		if err != nil {
			return err
		}
		add := func(name string, bytes int64) { sheet.Add(PartMemory, name+suffix, "MiB", float64(bytes)/mebi) }
		one := (more - less) / (many - few)
		add("an idle sandbox", one)
		add("charged to an idle sandbox by the kernel", charged)
		add("both zygotes together", less-few*one)
		add("the service itself", service)
		return nil
	})
}

// measureOutput watches the service while a program writes more than it may keep.
func measureOutput(ctx context.Context, e *Env, sheet *Sheet) error {
	const code = "import os\nb = b'x' * (1 << 20)\nfor _ in range(1024):\n    n = 0\n    while n < len(b):\n        n += os.write(1, b[n:])\n"
	return e.withService(ctx, func(s *Service) error {
		return e.eachRound(ctx, func() error {
			before := rss(s.PID)
			if err := resetPeak(s.PID); err != nil {
				return fmt.Errorf("cannot watch the service's memory: %w", err)
			}
			c, err := dial(s.Addr)
			if err != nil {
				return err
			}
			defer c.close()
			began := time.Now()
			body, err := c.do(request(s.Addr, code))
			if err != nil {
				return err
			}
			add := func(name, unit string, v float64) { sheet.Add(PartOutput, name, unit, v) }
			add("the service before", "MiB", float64(before)/mebi)
			add("growth of the service while 1 GiB was written", "MiB", float64(peakRSS(s.PID)-before)/mebi)
			add("written and counted", "MiB/s", 1024/time.Since(began).Seconds())
			return wroteAll(body)
		})
	}, "--python", e.Python)
}
