package sidecar

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// R19: one execution, the same answer; another body is a conflict.
func TestSameKey(t *testing.T) {
	var runs atomic.Int64
	s := start(t, func(context.Context, *wire.Request, wire.Sink) (*wire.Result, error) {
		return &wire.Result{RunID: fmt.Sprint(runs.Add(1)), Stdout: "hello"}, nil
	})
	first := post(t, s, `{"code":"x"}`, "Idempotency-Key", "k")
	again := post(t, s, `{"code":"x"}`, "Idempotency-Key", "k")
	if first.body != again.body || runs.Load() != 1 || first.header.Get("Idempotency-Replayed") != "" || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d runs: %+v, %+v", runs.Load(), first, again)
	}
	// A replay may be a stream: all of it stands in the end event.
	streamed := post(t, s, `{"code":"x"}`, "Idempotency-Key", "k", "Accept", "application/x-ndjson")
	if !strings.HasPrefix(streamed.body, `{"event":"end","run_id":"1",`) || !strings.Contains(streamed.body, `"stdout":"hello"`) {
		t.Error(streamed.body)
	}
	// Another body, and the same bytes as another type.
	f := func(r reply) {
		t.Helper()
		if e := r.error(t); e.Code != api.Conflict || e.Executed != api.No || runs.Load() != 1 {
			t.Error(e)
		}
	}
	f(post(t, s, `{"code":"y"}`, "Idempotency-Key", "k"))
	f(do(t, "POST", s.url+"/run_python", strings.NewReader(`{"code":"x"}`), "Content-Type", "text/x-python", "Idempotency-Key", "k"))
	// Another key is another run.
	if got := post(t, s, `{"code":"x"}`, "Idempotency-Key", "k2").result(t).RunID; got != "2" {
		t.Error(got)
	}
}

// R19: at once. All wait for the one run, streams too.
func TestSameKeyAtOnce(t *testing.T) {
	var runs atomic.Int64
	open := make(chan struct{})
	s := start(t, func(_ context.Context, _ *wire.Request, sink wire.Sink) (*wire.Result, error) {
		n := runs.Add(1)
		<-open
		return &wire.Result{RunID: fmt.Sprint(n)}, nil
	})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			headers := []string{"Content-Type", "application/json", "Idempotency-Key", "k"}
			if i%2 == 1 {
				headers = append(headers, "Accept", "text/event-stream")
			}
			r, err := try(client(t), "POST", s.url+"/run_python", strings.NewReader(`{"code":"x"}`), headers...)
			if err != nil || r.status != 200 || !strings.Contains(r.body, `"run_id":"1"`) {
				t.Errorf("%v %+v", err, r)
			}
		})
	}
	eventually(t, "all wait", func() bool { return s.gate.inFlight() == 20 })
	close(open)
	all.Wait()
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
}

// A run goes on while one of its callers still waits.
func TestOneOfTwoCallersHangsUp(t *testing.T) {
	var inRun atomic.Int64
	open := make(chan struct{})
	s := start(t, func(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		inRun.Add(1)
		select {
		case <-open:
			return echo(ctx, req, sink)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	ctx, hangUp := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if res, err := client(t).Do(newPost(ctx, s.url, `{"code":"x"}`, "Idempotency-Key", "k")); err == nil {
			res.Body.Close()
			t.Error("the first caller has an answer")
		}
	})
	eventually(t, "the run begins", func() bool { return inRun.Load() == 1 })
	var second reply
	all.Go(func() {
		r, err := try(client(t), "POST", s.url+"/run_python", strings.NewReader(`{"code":"x"}`), "Content-Type", "application/json", "Idempotency-Key", "k")
		if err != nil {
			t.Error(err)
		}
		second = r
	})
	eventually(t, "both wait", func() bool { return s.gate.inFlight() == 2 })
	hangUp()
	eventually(t, "the first is given up", func() bool { return s.gate.inFlight() == 1 })
	close(open)
	all.Wait()
	second.result(t)
	// When the last hangs up the run is ended; its key stays, for it may have run.
	ctx, hangUp = context.WithCancel(t.Context())
	open = make(chan struct{})
	all.Go(func() {
		if res, err := client(t).Do(newPost(ctx, s.url, `{"code":"y"}`, "Idempotency-Key", "k2")); err == nil {
			res.Body.Close()
		}
	})
	eventually(t, "the second run begins", func() bool { return inRun.Load() == 2 })
	hangUp()
	eventually(t, "it is ended", func() bool { return s.gate.inFlight() == 0 })
	all.Wait()
	if e := post(t, s, `{"code":"y"}`, "Idempotency-Key", "k2").error(t); e.Executed != api.Maybe || inRun.Load() != 2 {
		t.Error(e)
	}
}

// A failed attempt frees the key only when nothing ran.
func TestFailureAndKey(t *testing.T) {
	var next error
	runs := 0
	s := start(t, func(context.Context, *wire.Request, wire.Sink) (*wire.Result, error) { runs++; return nil, next })
	f := func(err error, want int) {
		t.Helper()
		next, runs = err, 0
		a := post(t, s, `{"code":"x"}`, "Idempotency-Key", "k")
		b := post(t, s, `{"code":"x"}`, "Idempotency-Key", "k")
		if runs != want || a.body != b.body {
			t.Errorf("%d runs, want %d; %s then %s", runs, want, a.body, b.body)
		}
	}
	// Nothing ran: the second attempt is made.
	f(api.Errorf(api.NoCapacity, "full"), 2)
	// Something may have run: the same error again.
	f(api.Errorf(api.SandboxLost, "lost").MaybeRan(), 1)
	// A request that was refused never took its key.
	post(t, s, `{"code":1}`, "Idempotency-Key", "k3").error(t)
	if next = nil; post(t, s, `{"code":"x"}`, "Idempotency-Key", "k3").error(t).Code != api.Internal {
		t.Error("the key was taken")
	}
}

// flown is a flight that has come to a.
func flown(landed func(answer), a answer) *flight {
	f := &flight{done: make(chan struct{}), answer: a}
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	go func() { landed(a); close(f.done) }()
	return f
}

func TestStoreOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := DefaultLimits().Server
		limits.IdempotencyKeys, limits.IdempotencyBytes = 3, 3*entryBytes+1000
		k := newKeys(limits)
		launched := 0
		board := func(key string, size int) (answer, bool, *api.Error) {
			t.Helper()
			c, replayed, err := k.board(key, sha256.Sum256([]byte("body")), func(landed func(answer)) *flight {
				launched++
				return flown(landed, answer{result: &wire.Result{Stdout: strings.Repeat("x", size)}})
			})
			if err != nil {
				return answer{}, replayed, err
			}
			<-c.done
			return c.answer, replayed, nil
		}
		// Kept for ten minutes, and then forgotten.
		board("a", 10)
		time.Sleep(10*time.Minute - time.Second)
		if _, replayed, err := board("a", 10); !replayed || err != nil || launched != 1 {
			t.Error(replayed, err, launched)
		}
		time.Sleep(time.Second)
		if _, replayed, err := board("a", 10); replayed || err != nil || launched != 2 {
			t.Error(replayed, err, launched)
		}
		// An answer that does not fit goes to its caller; a retry is told so.
		if a, _, err := board("big", 3000); err != nil || len(a.result.Stdout) != 3000 {
			t.Error(err)
		}
		if _, _, err := board("big", 3000); err == nil || err.Code != api.Conflict || err.Executed != api.Maybe || launched != 3 {
			t.Error(err, launched)
		}
		// When the store is full it says so, and when to come back.
		time.Sleep(time.Minute)
		board("c", 10)
		if _, _, err := board("d", 10); err == nil || err.Code != api.Busy || err.RetryAfter != 9*time.Minute || launched != 4 {
			t.Error(err, launched)
		}
		// What is known is still answered.
		if _, replayed, err := board("c", 10); !replayed || err != nil {
			t.Error(err)
		}
		time.Sleep(9 * time.Minute)
		if _, _, err := board("d", 10); err != nil || launched != 5 {
			t.Error(err, launched)
		}
		// All expired: nothing is left.
		time.Sleep(20 * time.Minute)
		if k.has("d") || len(k.byKey) != 0 || len(k.ended) != 0 || k.bytes != 0 {
			t.Errorf("%d keys, %d to expire, %d bytes", len(k.byKey), len(k.ended), k.bytes)
		}
	})
}
