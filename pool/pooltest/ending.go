package pooltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// ticking starts the endless program and returns when it has written. What it
// returned with comes from done, and count says how often it wrote.
func (s *suite) ticking(ctx context.Context, sandbox pool.Sandbox) (done <-chan error, count func() int) {
	s.Helper()
	var mu sync.Mutex
	ticks := 0
	first := make(chan struct{})
	sink := func(wire.Stream, string) {
		mu.Lock()
		defer mu.Unlock()
		if ticks++; ticks == 1 {
			close(first)
		}
	}
	ended := make(chan error, 1)
	go func() {
		res, err := sandbox.Run(ctx, &wire.Request{Code: programTicks, TimeoutSeconds: 50}, sink)
		if err == nil {
			err = fmt.Errorf("outcome %q", res.Outcome)
		}
		ended <- err
	}()
	select {
	case <-first:
	case err := <-ended:
		s.Fatalf("the program ended with %v", err)
	case <-time.After(20 * time.Second):
		s.Fatal("the program writes nothing")
	}
	return ended, func() int {
		mu.Lock()
		defer mu.Unlock()
		return ticks
	}
}

// ended waits for the run's end and checks that the program writes no more.
func (s *suite) ended(done <-chan error, count func() int) error {
	s.Helper()
	var err error
	select {
	case err = <-done:
	case <-time.After(20 * time.Second):
		s.Fatal("the run goes on")
	}
	n := count()
	time.Sleep(200 * time.Millisecond)
	if more := count(); more != n {
		s.Errorf("the program wrote %d times after its run had ended", more-n)
	}
	return err
}

func (s *suite) destroyEndsRun() {
	sandbox := s.start()
	done, count := s.ticking(s.ctx, sandbox)
	s.destroy(sandbox.ID())
	// A result says that it was killed; an error must say that it may have run.
	err := s.ended(done, count)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Executed != api.Maybe {
		s.Errorf("a program that had run is reported as not run: %v", err)
	}
}

func (s *suite) callerLeaves() {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	done, count := s.ticking(ctx, s.start())
	cancel()
	err := s.ended(done, count)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Executed != api.Maybe {
		s.Errorf("a program that had run is reported as not run: %v", err)
	}
}
