package load

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tally is what a load saw.
type tally struct {
	times  []time.Duration // of each good answer, from when it was due
	late   []time.Duration // how late the generator itself sent each
	inside []time.Duration // the service's own word: time in the sandbox
	ids    map[string]int
	errs   []error
	cold   int
	took   time.Duration
}

func newTally() *tally { return &tally{ids: map[string]int{}} }

func (t *tally) merge(o *tally) {
	t.times = append(t.times, o.times...)
	t.late = append(t.late, o.late...)
	t.inside = append(t.inside, o.inside...)
	t.errs = append(t.errs, o.errs...)
	t.cold += o.cold
	for id, n := range o.ids {
		t.ids[id] += n
	}
}

// twice counts the sandboxes that ran more than one program.
func (t *tally) twice() int {
	n := 0
	for _, runs := range t.ids {
		if runs > 1 {
			n++
		}
	}
	return n
}

func (t *tally) err() error { return errors.Join(t.errs[:min(3, len(t.errs))]...) }

func (t *tally) rate() float64 { return float64(len(t.times)) / t.took.Seconds() }

// snippet is a program and what it must print.
type snippet struct{ code, stdout string }

var printOne = snippet{"print(1)", "1\n"}

// one runs the snippet and takes note of it as having been due at due.
func (t *tally) one(c *client, req []byte, s snippet, due time.Time) {
	body, err := c.do(req)
	took := time.Since(due)
	if err != nil {
		t.errs = append(t.errs, err)
		return
	}
	a, err := decode(body, s.stdout)
	if err != nil {
		t.errs = append(t.errs, err)
		return
	}
	t.times = append(t.times, took)
	t.late = append(t.late, c.busy.Sub(due))
	t.inside = append(t.inside, time.Duration(a.Timing.RunMS*float64(time.Millisecond)))
	t.ids[a.SandboxID]++
	if !a.Warm {
		t.cold++
	}
}

// openLoop sends rate requests a second for the given time, whatever becomes of
// earlier ones: each latency counts from when its request was due, so that a
// stall of the service is not hidden by a generator that waits with it.
func openLoop(addr string, s snippet, rate int, length time.Duration) (*tally, error) {
	const lanes = 32 // lane i sends the requests i, i+lanes, …
	return callers(addr, s, lanes, func(lane int, c *client, req []byte, t *tally, start time.Time) {
		gap := time.Second / time.Duration(rate)
		for i := lane; gap*time.Duration(i) < length; i += lanes {
			due := start.Add(gap * time.Duration(i))
			sleepUntil(due)
			t.one(c, req, s, due)
		}
	})
}

// closedLoop has n callers that each send the next request when the last is
// answered; each sends one at least.
func closedLoop(addr string, s snippet, n int, length time.Duration) (*tally, error) {
	return callers(addr, s, n, func(_ int, c *client, req []byte, t *tally, start time.Time) {
		t.one(c, req, s, time.Now())
		for end := start.Add(length); time.Now().Before(end) && len(t.errs) < 100; {
			t.one(c, req, s, time.Now())
		}
	})
}

// callers runs n of them, each with a connection and a thread of its own.
func callers(addr string, s snippet, n int, f func(i int, c *client, req []byte, t *tally, start time.Time)) (*tally, error) {
	clients := make([]*client, n)
	for i := range clients {
		c, err := dial(addr)
		if err != nil {
			return nil, err
		}
		defer c.close()
		clients[i] = c
	}
	req, sum := request(addr, s.code), newTally()
	start := time.Now().Add(20 * time.Millisecond)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			// The thread is not given back: its timer slack is its own.
			runtime.LockOSThread()
			_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0)
			sleepUntil(start)
			t := newTally()
			f(i, c, req, t, start)
			mu.Lock()
			defer mu.Unlock()
			sum.merge(t)
		})
	}
	wg.Wait()
	sum.took = time.Since(start)
	return sum, nil
}

// sleepUntil sleeps in the kernel for most of the time and spins for the last
// 30 µs: a sleep of the Go runtime can end a millisecond late.
func sleepUntil(t time.Time) {
	const spin = 30 * time.Microsecond
	for left := time.Until(t) - spin; left > 0; left = time.Until(t) - spin {
		ts := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&ts, nil)
	}
	for time.Now().Before(t) {
	}
}
