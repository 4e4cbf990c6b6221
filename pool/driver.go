package pool

import (
	"context"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Driver makes and destroys sandboxes. Its methods are called concurrently.
type Driver interface {
	// Start makes a sandbox and returns when its runner has answered: the
	// sandbox can be claimed at once. On error nothing is left behind. A
	// failure that a caller should see as it is (an image that cannot be
	// pulled) is an *api.Error; see Accident.
	Start(ctx context.Context, t Template) (Sandbox, error)
	// Destroy ends the sandbox and all that runs in it, and returns when it is
	// gone. It is idempotent: an unknown id is nil.
	Destroy(ctx context.Context, id string) error
	// Watch reports sandboxes as they come and go: first one event for each
	// that exists, then changes, until ctx ends and the channel is closed. Only
	// those are reported that this pool may destroy: what it did not start
	// itself it takes for an orphan.
	Watch(ctx context.Context) (<-chan Event, error)
}

// Accident marks the error of a start that may well succeed the next time, such
// as one on a node with too much to do: callers wait on, and are told it only
// when it has happened several times in a row.
func Accident(err *api.Error) error { return accident{err} }

type accident struct{ err *api.Error }

func (a accident) Error() string { return a.err.Error() }

func (a accident) Unwrap() error { return a.err }

// Sandbox is one one-use environment, ready to run.
type Sandbox interface {
	// ID is never used twice, not even after a restart.
	ID() string
	// Run executes one request; a second call is refused with ErrUsed. It
	// returns when the program has ended, its deadline has passed, or ctx has
	// ended. An error is ours (an *api.Error says whether anything ran); how
	// the program ended is the result's outcome.
	Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error)
}

// Event is a change in a driver's sandboxes.
type Event struct {
	ID string
	// Gone is set when the sandbox ended without Destroy; Cause says why.
	Gone  bool
	Cause string
}
