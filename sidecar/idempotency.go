package sidecar

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	maxKey = 255
	// entryBytes is what a key costs beside its answer, generously.
	entryBytes = 1 << 10
)

// keys remembers the answers of requests that had an Idempotency-Key, so that
// a retry never runs the code twice. Everyone who can reach this API is one
// caller: it listens on the loopback of one pod, or of one machine.
type keys struct {
	limit ServerLimits

	mu    sync.Mutex
	byKey map[string]*entry
	ended []*entry // in the order in which they expire
	bytes int64
}

type entry struct {
	key     string
	digest  [sha256.Size]byte
	flight  *flight // nil when the answer was too large to keep
	bytes   int64
	expires time.Time
}

func newKeys(l ServerLimits) *keys {
	return &keys{limit: l, byKey: map[string]*entry{}}
}

// has says whether something ran, or runs, under key.
func (k *keys) has(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweep(time.Now())
	return k.byKey[key] != nil
}

// board joins the flight that has the key, or launches one. What the flight
// comes to is remembered through landed. A store that is full refuses: it
// neither forgets a key early nor runs without one.
func (k *keys) board(key string, digest [sha256.Size]byte, launch func(landed func(answer)) *flight) (c *caller, replayed bool, _ *api.Error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.sweep(now)
	if e := k.byKey[key]; e != nil {
		switch {
		case e.digest != digest:
			return nil, false, api.Errorf(api.Conflict, "the Idempotency-Key was used with another body in the last %v s: use a new key for a new request", k.limit.IdempotencyTTL)
		case e.flight == nil:
			return nil, true, api.Errorf(api.Conflict, "the run under this Idempotency-Key has ended, but its answer was too large to keep: use a new key to run it again").MaybeRan()
		}
		return e.flight.board(), true, nil
	}
	if len(k.byKey) >= k.limit.IdempotencyKeys || k.bytes+entryBytes > k.limit.IdempotencyBytes {
		return nil, false, k.full(now)
	}
	e := &entry{key: key, digest: digest, bytes: entryBytes}
	k.bytes += e.bytes
	k.byKey[key] = e
	e.flight = launch(func(a answer) { k.landed(e, a) })
	return e.flight.board(), false, nil
}

// full is the refusal, with the time until the next key expires.
func (k *keys) full(now time.Time) *api.Error {
	after := time.Second
	if len(k.ended) > 0 {
		after = max(after, k.ended[0].expires.Sub(now))
	}
	return api.Errorf(api.Busy, "the store of Idempotency-Keys is full (%d keys, %d bytes of answers): send the request without a key, or later", len(k.byKey), k.bytes).After(after)
}

// landed keeps the answer, or frees the key when nothing ran.
func (k *keys) landed(e *entry, a answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a.err != nil && a.err.Executed == api.No {
		k.drop(e)
		return
	}
	if size := weigh(a); k.bytes+size > k.limit.IdempotencyBytes {
		e.flight = nil
	} else {
		e.bytes += size
		k.bytes += size
	}
	e.expires = time.Now().Add(k.limit.IdempotencyTTL.Duration())
	k.ended = append(k.ended, e)
}

func (k *keys) sweep(now time.Time) {
	for len(k.ended) > 0 && !now.Before(k.ended[0].expires) {
		k.drop(k.ended[0])
		k.ended[0] = nil
		k.ended = k.ended[1:]
	}
}

func (k *keys) drop(e *entry) {
	delete(k.byKey, e.key)
	k.bytes -= e.bytes
}

// weigh is about how many bytes an answer holds.
func weigh(a answer) int64 {
	if a.err != nil {
		return int64(len(a.err.Message))
	}
	return weighResult(a.result)
}

func weighResult(r *wire.Result) int64 {
	n := len(r.Stdout) + len(r.Stderr) + len(r.Reason)
	if r.Value != nil {
		n += len(*r.Value)
	}
	for _, f := range r.Files {
		n += len(f.Path) + len(f.Content) + 128
	}
	for _, f := range r.FilesOmitted {
		n += len(f.Path) + len(f.Reason) + 64
	}
	return int64(n)
}
