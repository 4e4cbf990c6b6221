package pooltest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// bound is how long the suite waits for anything that a driver does: far above
// what is expected of one, so that only what hangs fails.
const bound = 2 * time.Minute

// Exception names what a driver need not do, and with what the suite then tests
// it instead.
type Exception string

// SharedMachine is for a driver that isolates nothing: two sandboxes see one
// /tmp. Their working directories, and the folders that Python's tempfile picks,
// must be apart all the same.
const SharedMachine Exception = "the machine is shared"

// Conformance is the suite that every driver must pass. open makes a driver
// that lives as long as the test it is given; template is one that it can
// start, with Python in it and a MaxRun of a minute or more.
func Conformance(t *testing.T, open func(t *testing.T) pool.Driver, template pool.Template, exceptions ...Exception) {
	f := func(name string, test func(s *suite)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			t.Cleanup(cancel)
			test(&suite{T: t, ctx: ctx, driver: open(t), template: template, exceptions: exceptions})
		})
	}
	f("ready means runnable", (*suite).ready)
	f("outcomes", (*suite).outcomes)
	f("a sandbox runs once", (*suite).once)
	f("destroy is idempotent", (*suite).destroyTwice)
	f("destroy ends a run", (*suite).destroyEndsRun)
	f("a caller that leaves ends its run", (*suite).callerLeaves)
	f("nothing is seen from one sandbox in another", (*suite).apart)
	f("concurrent starts", (*suite).concurrent)
	f("a start that is given up leaves nothing", (*suite).startGivenUp)
	f("watch reports what exists, then changes", (*suite).watch)
}

// suite is one test of one driver.
type suite struct {
	*testing.T
	ctx      context.Context
	driver   pool.Driver
	template pool.Template

	exceptions []Exception
}

// start makes a sandbox that is destroyed when the test ends.
func (s *suite) start() pool.Sandbox {
	s.Helper()
	sandbox, err := s.driver.Start(s.ctx, s.template)
	if err != nil {
		s.Fatalf("cannot start: %v", err)
	}
	s.Cleanup(func() { s.destroy(sandbox.ID()) })
	return sandbox
}

func (s *suite) destroy(id string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), bound)
	defer cancel()
	if err := s.driver.Destroy(ctx, id); err != nil {
		s.Errorf("cannot destroy %s: %v", id, err)
	}
}

func (s *suite) run(sandbox pool.Sandbox, req *wire.Request) *wire.Result {
	s.Helper()
	res, err := sandbox.Run(s.ctx, req, nil)
	if err != nil {
		s.Fatalf("cannot run: %v", err)
	}
	return res
}

// hello runs a program in the sandbox and checks that it did.
func (s *suite) hello(sandbox pool.Sandbox) {
	s.Helper()
	res := s.run(sandbox, &wire.Request{Code: programHello, TimeoutSeconds: 20})
	if res.Outcome != wire.OK || res.Stdout != "hello\n" {
		s.Errorf("outcome %q, stdout %q, stderr %q", res.Outcome, res.Stdout, res.Stderr)
	}
}

func (s *suite) ready() {
	for range 5 {
		s.hello(s.start())
	}
}

func (s *suite) outcomes() {
	stdin := "text"
	f := func(code string, timeout float64, outcome wire.Outcome, exit int, stdout, stderr string) *wire.Result {
		s.Helper()
		var heard strings.Builder
		sink := func(to wire.Stream, text string) {
			if to == wire.Stdout {
				heard.WriteString(text)
			}
		}
		res, err := s.start().Run(s.ctx, &wire.Request{Code: code, TimeoutSeconds: timeout, Stdin: &stdin}, sink)
		if err != nil {
			s.Errorf("%q: %v", code, err)
			return &wire.Result{}
		}
		if res.Outcome != outcome || exit >= 0 && res.ExitCode != exit {
			s.Errorf("%q: outcome %q, exit code %d, stderr %q", code, res.Outcome, res.ExitCode, res.Stderr)
		}
		if !strings.HasPrefix(res.Stdout, stdout) || !strings.Contains(res.Stderr, stderr) {
			s.Errorf("%q: stdout %q, stderr %q", code, res.Stdout, res.Stderr)
		}
		if res.StdoutBytes != int64(len(res.Stdout)) || heard.String() != res.Stdout {
			s.Errorf("%q: stdout %q, %d bytes, the sink heard %q", code, res.Stdout, res.StdoutBytes, heard.String())
		}
		return res
	}
	f(programHello, 20, wire.OK, 0, "hello\n", "")
	f(programExit3, 20, wire.Failed, 3, "", "oops")
	f(programRaise, 20, wire.Failed, 1, "", "ValueError: wrong")
	f(programStdin, 20, wire.OK, 0, "TEXT\n", "")
	// The value of the last expression.
	if res := f(programValue, 20, wire.OK, 0, "", ""); res.Value == nil || *res.Value != "42" {
		s.Errorf("value is %v, want 42", res.Value)
	}
	// A program that never ends, ended at its deadline with what it wrote.
	began := time.Now()
	f(programTicks, 0.5, wire.Timeout, -1, "tick\n", "")
	if took := time.Since(began); took > 20*time.Second {
		s.Errorf("a timeout of half a second took %v", took)
	}
}

func (s *suite) once() {
	sandbox := s.start()
	s.hello(sandbox)
	if _, err := sandbox.Run(s.ctx, &wire.Request{Code: programHello}, nil); !errors.Is(err, pool.ErrUsed) {
		s.Errorf("a second run gets %v, want ErrUsed", err)
	}
}

func (s *suite) destroyTwice() {
	id := s.start().ID()
	s.destroy(id)
	s.destroy(id)
	s.destroy("never-was")
}

func (s *suite) apart() {
	program := programMark
	if slices.Contains(s.exceptions, SharedMachine) {
		program = programMarkOwn
	}
	first, second := s.start(), s.start()
	for _, sandbox := range []pool.Sandbox{first, second, s.start()} {
		res := s.run(sandbox, &wire.Request{Code: program, TimeoutSeconds: 20})
		if res.Stdout != "new\n" {
			s.Errorf("stdout is %q, stderr %q: an earlier run left its mark", res.Stdout, res.Stderr)
		}
	}
}

func (s *suite) concurrent() {
	const n = 8
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		ids = map[string]bool{}
	)
	for range n {
		wg.Go(func() {
			sandbox, err := s.driver.Start(s.ctx, s.template)
			if err != nil {
				s.Errorf("cannot start: %v", err)
				return
			}
			defer s.destroy(sandbox.ID())
			mu.Lock()
			ids[sandbox.ID()] = true
			mu.Unlock()
			res, err := sandbox.Run(s.ctx, &wire.Request{Code: programHello, TimeoutSeconds: 20}, nil)
			if err != nil || res.Stdout != "hello\n" {
				s.Errorf("cannot run: %v", err)
			}
		})
	}
	wg.Wait()
	if len(ids) != n {
		s.Errorf("%d sandboxes have %d ids", n, len(ids))
	}
}

func (s *suite) startGivenUp() {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if sandbox, err := s.driver.Start(ctx, s.template); err == nil {
		s.destroy(sandbox.ID())
		s.Fatal("a start whose caller has left gives a sandbox")
	}
	events := s.watching(s.ctx)
	select {
	case e := <-events:
		if !e.Gone {
			s.Errorf("%s was left behind", e.ID)
		}
	case <-time.After(500 * time.Millisecond):
	}
}

func (s *suite) watching(ctx context.Context) <-chan pool.Event {
	s.Helper()
	events, err := s.driver.Watch(ctx)
	if err != nil {
		s.Fatalf("cannot watch: %v", err)
	}
	return events
}

func (s *suite) watch() {
	first, second := s.start().ID(), s.start().ID()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	events := s.watching(ctx)
	seen := map[string]bool{}
	until := func(ids ...string) {
		s.Helper()
		late := time.After(20 * time.Second)
		for _, id := range ids {
			for !seen[id] {
				select {
				case e, open := <-events:
					if !open {
						s.Fatal("the watch ended by itself")
					}
					seen[e.ID] = !e.Gone
				case <-late:
					s.Fatalf("%s is not reported", id)
				}
			}
		}
	}
	until(first, second)
	until(s.start().ID())
	cancel()
	late := time.After(20 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-events:
		case <-late:
			s.Fatal("the channel stays open when the watch has ended")
		}
	}
}
