package injector

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// lookup asks the API server for an object where the watch may be behind. It is
// bounded in time and in rate; who asks for what is about to be asked for shares
// the answer, so a flood of pods in one namespace is few reads.
type lookup[T any] struct {
	get   func(ctx context.Context, namespace string) (T, error)
	limit *rate.Limiter

	mu      sync.Mutex
	waiting map[string]*asked[T]
}

// asked is a question whose answer is there once done is closed.
type asked[T any] struct {
	done  chan struct{}
	value T
	err   error
}

const (
	// lookupBound is what the API server may take for all that is asked about a pod.
	lookupBound = 3 * time.Second
	// All rates together are below what the client itself is bound to, which audit
	// and Events share.
	lookupRate, lookupBurst = 30, 60
	// Names that the watch does not know: those of namespaces that were made a
	// moment ago, or of nobody.
	strangerRate, strangerBurst = 5, 10
	// The authority, which is one for all: who waits for it shares the answer.
	authorityRate, authorityBurst = 2, 2
)

func newLookup[T any](limit *rate.Limiter, get func(ctx context.Context, namespace string) (T, error)) *lookup[T] {
	return &lookup[T]{get: get, limit: limit, waiting: map[string]*asked[T]{}}
}

// of asks about a namespace. What it returns was read after the call.
func (l *lookup[T]) of(ctx context.Context, namespace string) (T, error) {
	l.mu.Lock()
	a, ok := l.waiting[namespace]
	if !ok {
		a = &asked[T]{done: make(chan struct{})}
		l.waiting[namespace] = a
	}
	l.mu.Unlock()
	if !ok {
		l.ask(ctx, namespace, a)
	}
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// ask waits for its turn, then asks for all that wait: who comes after that has
// a question of its own. One who hangs up ends it for nobody; the time that the
// first of them has left is that of the question.
func (l *lookup[T]) ask(ctx context.Context, namespace string, a *asked[T]) {
	end := time.Now().Add(lookupBound)
	if own, ok := ctx.Deadline(); ok && own.Before(end) {
		end = own
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	defer cancel()
	defer close(a.done)
	err := l.limit.Wait(ctx)
	l.mu.Lock()
	delete(l.waiting, namespace)
	l.mu.Unlock()
	if a.err = err; err == nil {
		a.value, a.err = l.get(ctx, namespace)
	}
}

// sharedRefresh is one that many may ask for at once.
func sharedRefresh(refresh func(context.Context) error) func(context.Context) error {
	l := newLookup(rate.NewLimiter(authorityRate, authorityBurst), func(ctx context.Context, _ string) (struct{}, error) {
		return struct{}{}, refresh(ctx)
	})
	return func(ctx context.Context) error {
		_, err := l.of(ctx, "")
		return err
	}
}
