package injector

import (
	"fmt"
	"io"

	"golang.org/x/sync/semaphore"
)

// Bounds of the reviews in flight together. An ordinary one is some 10 KiB; read
// and decoded, one takes several times its size of memory, and a replica has
// 256 MiB by default.
const (
	maxReviews      = 64
	maxReviewsBytes = 4 * maxBody
)

var errBusy = fmt.Errorf("%d reviews or %d MiB of them are in flight; ask again, or raise injector.replicas", maxReviews, maxReviewsBytes>>20)

// gate bounds what is in flight: reviews that were read, and bytes that have come.
// Beyond it there is an answer at once, never a queue: the API server waits no
// longer than its timeout. Anybody in the cluster may connect, so nothing is taken
// for a review but what has come of it.
type gate struct{ reviews, bytes *semaphore.Weighted }

func newGate() gate {
	return gate{semaphore.NewWeighted(maxReviews), semaphore.NewWeighted(maxReviewsBytes)}
}

// arriving is a body whose bytes count from when they come until it is freed.
type arriving struct {
	io.Reader
	gate gate
	held int64
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if !a.gate.bytes.TryAcquire(int64(n)) {
		return 0, errBusy
	}
	a.held += int64(n)
	return n, err
}

func (a *arriving) free() { a.gate.bytes.Release(a.held) }
