package load

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

// command is a baseline: a program run the plain way, its output read.
type command struct {
	args []string
	want string
}

func (e *Env) plainPython() command { return command{[]string{e.Python, "-c", "print(1)"}, "1\n"} }

func (e *Env) bubblewrap() command {
	return command{[]string{"bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
		e.Python, "-c", "print(1)"}, "1\n"}
}

func (c command) run(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	out, err := exec.CommandContext(ctx, c.args[0], c.args[1:]...).Output()
	if err != nil || string(out) != c.want {
		return 0, fmt.Errorf("the baseline %q failed: %w: it printed %q", c.args[0], err, out)
	}
	return time.Since(began), nil
}

// repeat runs c n times, one after the other.
func (c command) repeat(ctx context.Context, n int) ([]time.Duration, error) {
	var times []time.Duration
	for range n {
		took, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	return times, nil
}

// closedLoop has n callers run c one after the other, and returns runs a second.
func (c command) closedLoop(ctx context.Context, n int, length time.Duration) (float64, error) {
	start := time.Now()
	var mu sync.Mutex
	var runs int
	var failure error
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for time.Since(start) < length {
				_, err := c.run(ctx)
				mu.Lock()
				if err != nil {
					failure = err
				}
				runs++
				stop := failure != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(runs) / time.Since(start).Seconds(), failure
}
