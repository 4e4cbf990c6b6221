package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// sweepEvery is how often the slow duties are looked at: deadlines, targets,
// templates that nobody uses.
const sweepEvery = time.Second

// Pool keeps sandboxes warm and gives each run its own. Make one with New and
// run it with Run; Claim and Exec may be called from any goroutine.
type Pool struct {
	opts    Options
	log     hclog.Logger
	metrics *metrics
	// wake has one place: the loop of Run looks at the state once more.
	wake chan struct{}
	// work counts what Run owns: starts, destructions and the watch.
	work sync.WaitGroup

	mu      sync.Mutex
	running bool
	// stopping is set when Run's context has ended, at which time drainBy is
	// when the last runs are ended.
	stopping bool
	drainBy  time.Time

	pools   *simplelru.LRU[string, *warmPool]
	records map[string]*record // every sandbox that stands
	counts  [states]int        // records by state
	callers map[Caller]callerCount
	waiting int

	// starts holds the number of each start that was asked for and has not
	// ended; they count against Max.
	starts    map[uint64]struct{}
	lastStart uint64

	doomed    []*record // to be destroyed, oldest first
	destroys  int       // destructions under way
	nextSweep time.Time

	// suspects are sandboxes the driver reported that no record knows, each
	// with the last start asked for by then: it may be the one that made it.
	suspects map[string]uint64
	// ended remembers the last ids destroyed, of which late news may come.
	ended    *simplelru.LRU[string, struct{}]
	settleBy time.Time // when sandboxes that a new watch has not reported are lost
}

// New makes a pool. An error names the setting that is wrong.
func New(opts Options) (*Pool, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("cannot make a pool: %w", err)
	}
	p := &Pool{
		opts:     opts,
		log:      opts.Logger,
		wake:     make(chan struct{}, 1),
		records:  map[string]*record{},
		callers:  map[Caller]callerCount{},
		starts:   map[uint64]struct{}{},
		suspects: map[string]uint64{},
	}
	var err error
	if p.pools, err = simplelru.NewLRU[string, *warmPool](opts.MaxTemplates, nil); err != nil {
		return nil, fmt.Errorf("cannot make a pool: %w", err)
	}
	if p.ended, err = simplelru.NewLRU[string, struct{}](1024, nil); err != nil {
		return nil, fmt.Errorf("cannot make a pool: %w", err)
	}
	now := time.Now()
	for _, t := range opts.Templates {
		w := newWarmPool(t, t.Key(), p.target(t), now)
		w.pinned = true
		p.pools.Add(w.key, w)
	}
	if p.metrics, err = newMetrics(opts.Registerer, p.Stats); err != nil {
		return nil, fmt.Errorf("cannot make a pool: cannot register metrics: %w", err)
	}
	return p, nil
}

// Stats is how many sandboxes there are in each state, and how many callers
// wait for one.
type Stats struct {
	Warm, Starting, Leased, Destroying, Waiting int
}

// Stats counts the sandboxes at this moment.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		Warm:       p.counts[warm],
		Starting:   len(p.starts),
		Leased:     p.counts[leased],
		Destroying: p.counts[destroying],
		Waiting:    p.waiting,
	}
}

// Run keeps the pool until ctx ends. Then nothing is claimed any more, runs in
// flight have until Options.DrainTimeout to finish, all sandboxes are
// destroyed, and Run returns; an error says how many could not be.
func (p *Pool) Run(ctx context.Context) error {
	p.mu.Lock()
	if p.running {
		p.mu.Unlock()
		return errors.New("cannot run the pool: it has been run already")
	}
	p.running = true
	p.mu.Unlock()

	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.work.Go(func() { p.watch(last) })
	left := p.loop(ctx, last)
	cancel()
	p.work.Wait()
	p.log.Info("pool stopped", "left", left)
	if left > 0 {
		return fmt.Errorf("cannot destroy all sandboxes: %d are left", left)
	}
	return nil
}

// loop acts on the state whenever something changed or is due, and returns how
// many sandboxes are left when the pool has stopped. Starts end with ctx;
// destructions go on until last ends.
func (p *Pool) loop(ctx, last context.Context) int {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for {
		select {
		case <-done:
			done = nil
			p.stop(time.Now())
		case <-p.wake:
		case <-timer.C:
		}
		now := time.Now()
		next, left, stopped := p.step(ctx, last, now)
		if stopped {
			return left
		}
		timer.Reset(next.Sub(now))
	}
}

// step decides under the lock what is to be done now and sets it going. It
// returns when to look again at the latest.
func (p *Pool) step(ctx, last context.Context, now time.Time) (next time.Time, left int, stopped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.nextSweep) {
		p.nextSweep = now.Add(sweepEvery)
		p.sweep(now)
	}
	p.judge()
	next = earlier(p.nextSweep, p.refill(ctx, now))
	next = earlier(next, p.destroyDue(last, now))
	if p.stopping {
		left = len(p.records) + len(p.starts)
		stopped = left == 0 || now.After(p.drainBy.Add(p.opts.DestroyTimeout))
	}
	return next, left, stopped
}

// stop refuses those who wait and ends what nobody holds.
func (p *Pool) stop(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	p.drainBy = now.Add(p.opts.DrainTimeout)
	p.log.Info("pool stopping", "leased", p.counts[leased], "waiting", p.waiting)
	for _, w := range p.pools.Values() {
		p.refuseAll(w, errStopping())
		p.drop(w, causeStopped)
	}
}

func errStopping() *api.Error {
	return api.Errorf(api.NoCapacity, "cannot claim a sandbox: the pool is stopping").After(time.Second)
}

// kick makes the loop look at the state. It never blocks.
func (p *Pool) kick() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}
