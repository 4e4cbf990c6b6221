package kube

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// quietBound is how long a cause must have been silent for its next failure
	// to be another Event.
	quietBound = 10 * time.Minute
	// tellEvery is how often at most the Event of a cause is written.
	tellEvery = 10 * time.Second
	// maxCauses bounds the causes that are kept.
	maxCauses = 64
)

// cause is what starts fail for. However often they do, it has one Event.
type cause struct{ namespace, reason, image string }

// notice is the Event of one cause, as it stands.
type notice struct {
	event string // its name; empty until it is made
	first time.Time
	last  time.Time // when a start failed for it
	told  time.Time // when the Event was last written, or tried
	count int32
}

// notices are the Events of a replica. They say why there are no sandboxes.
type notices struct {
	mu     sync.Mutex
	causes *simplelru.LRU[cause, *notice]
}

func newNotices() *notices {
	causes, err := simplelru.NewLRU[cause, *notice](maxCauses, nil)
	if err != nil {
		panic("BUG: cannot make a list of causes: " + err.Error())
	}
	return &notices{causes: causes}
}

// failed takes note of a start that failed, and says whether the Event is to be
// written, and how. What is not written now, the next failure tells.
func (n *notices) failed(c cause, now time.Time) (as notice, due bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, found := n.causes.Get(c)
	if !found || now.Sub(known.last) > quietBound {
		known = &notice{first: now}
		n.causes.Add(c, known)
	}
	known.count++
	known.last = now
	if now.Sub(known.told) < tellEvery {
		return notice{}, false
	}
	known.told = now
	return *known, true
}

// made takes note of the Event that tells of a cause.
func (n *notices) made(c cause, event string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, found := n.causes.Get(c); found {
		known.event = event
	}
}
