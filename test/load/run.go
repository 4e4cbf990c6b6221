package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The parts that can be measured; their names head the tables.
const (
	PartOpen   = "open: 100 runs a second, whatever becomes of earlier ones"
	PartClosed = "closed: 4 callers, each with its next run when the last has ended"
	PartMemory = "memory"
	PartData   = "data: numpy and pandas imported ahead"
	PartBurst  = "burst: 30 callers at once, 3 sandboxes warm"
	PartOutput = "output: a program writes 1 GiB"
	PartStart  = "start"
	PartGrowth = "growth: closed loops of more and more callers"
	PartFleet  = "fleet: the service of the pool over TLS, fake sandboxes"
	PartSoak   = "soak: 2,000 runs of numpy, pandas and threads"
)

// Env is what a measurement works with.
type Env struct {
	Binary   string        // the code-sandbox program
	Python   string        // the interpreter, of the service and of the baseline: no shim
	Data     string        // an interpreter with numpy and pandas
	Rounds   int           // repetitions, of which the median is taken
	Length   time.Duration // of a load in one round
	Baseline int           // runs of each baseline in one round
	SoakRuns int
	Logf     func(format string, args ...any)
}

type part struct {
	Flag, Title string
	measure     func(context.Context, *Env, *Sheet) error
}

var parts = []part{
	{"start", PartStart, measureStart},
	{"open", PartOpen, measureOpen},
	{"closed", PartClosed, measureClosed},
	{"growth", PartGrowth, measureGrowth},
	{"burst", PartBurst, measureBurst},
	{"output", PartOutput, measureOutput},
	{"memory", PartMemory, measureMemory},
	{"data", PartData, measureData},
	{"fleet", PartFleet, measureFleet},
	{"soak", PartSoak, measureSoak},
}

// Titles maps the names of parts on a command line to their titles, and
// refuses one that does not exist.
func Titles(flags []string) ([]string, error) {
	var titles []string
	for _, f := range flags {
		title := ""
		for _, p := range parts {
			if p.Flag == f {
				title = p.Title
			}
		}
		if title == "" {
			return nil, fmt.Errorf("there is no part %q", f)
		}
		titles = append(titles, title)
	}
	return titles, nil
}

// Measure takes the figures of the parts with the given titles. The sheet holds
// what was measured, whatever the error says could not be.
func Measure(ctx context.Context, e *Env, titles []string) (*Sheet, error) {
	s := &Sheet{Machine: describeMachine(ctx, e), Bounds: Bounds}
	var errs []error
	for _, p := range parts {
		if !contains(titles, p.Title) {
			continue
		}
		e.Logf("measuring %s", p.Title)
		if err := p.measure(ctx, e, s); err != nil {
			errs = append(errs, fmt.Errorf("cannot measure %s: %w", p.Title, err))
		}
	}
	s.Machine.Done()
	return s, errors.Join(errs...)
}

// withService starts a service for f, and stops it. The first second of load,
// in which pages and caches fill, is not measured.
func (e *Env) withService(ctx context.Context, f func(*Service) error, args ...string) error {
	return e.withIdleService(ctx, func(s *Service) error {
		if _, err := openLoop(s.Addr, printOne, 100, time.Second); err != nil {
			return err
		}
		return f(s)
	}, args...)
}

// withIdleService gives f a service that has served nobody yet, so that it
// keeps no more sandboxes warm than its target.
func (e *Env) withIdleService(ctx context.Context, f func(*Service) error, args ...string) error {
	s, err := StartService(ctx, e.Binary, args...)
	if err != nil {
		return err
	}
	err = f(s)
	if stopErr := s.Stop(); err == nil {
		err = stopErr
	}
	return err
}

// settle waits until warm sandboxes have been made again.
func settle(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// eachRound calls f for every round.
func (e *Env) eachRound(ctx context.Context, f func() error) error {
	for range e.Rounds {
		if err := settle(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
