package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// exitKilled is the exit code of what the kernel or a kubelet killed.
const exitKilled = 128 + 9

// forever is longer than any sandbox lives.
const forever = 1000 * time.Hour

// sandbox is one pod whose runner waits at the other end of conn.
type sandbox struct {
	id     string
	driver *Driver
	entry  *entry
	conn   Conn
	limits wire.Limits
	egress *wire.Egress // nil where nothing may be reached

	used    atomic.Bool
	busy    chan struct{} // closed when its run begins
	ended   chan struct{} // closed when it is destroyed
	endOnce sync.Once
}

var _ pool.Sandbox = (*sandbox)(nil)

func newSandbox(st *start) *sandbox {
	s := &sandbox{
		id: st.id.name, driver: st.driver, entry: st.entry, conn: st.conn, limits: st.template.Limits,
		busy: make(chan struct{}), ended: make(chan struct{}),
	}
	if st.template.Copy != nil {
		s.egress = st.template.Copy.Egress
	}
	return s
}

// ID implements pool.Sandbox.
func (s *sandbox) ID() string { return s.id }

// end hangs up: the runner then kills what runs and ends itself.
func (s *sandbox) end() {
	s.endOnce.Do(func() {
		close(s.ended)
		s.conn.Close()
	})
}

// idle reports a sandbox that ends, or has waited for too long, before its run.
func (s *sandbox) idle() {
	life := s.driver.opts.Pods.Life
	// Not all at once: those started together would otherwise end together.
	timer := time.NewTimer(life - rand.N(life/10+1))
	defer timer.Stop()
	select {
	case <-s.busy:
	case <-s.ended:
	case <-s.driver.stop:
	case <-s.conn.Broken():
		s.driver.roster.lose(s.entry, "its runner hung up before its run")
	case <-timer.C:
		s.driver.roster.lose(s.entry, "it has waited for its run for too long")
	}
}

// Run implements pool.Sandbox. It speaks to the runner alone; the pod's status
// is looked at only when that has been lost.
func (s *sandbox) Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	if !s.used.CompareAndSwap(false, true) {
		return nil, api.Errorf(api.Internal, "%w", pool.ErrUsed)
	}
	close(s.busy)
	heard := &heard{sink: sink, most: s.limits.OutputBytes}
	began := time.Now()
	release, closeEgress := s.guard(), s.serveEgress()
	res, err := s.conn.Run(ctx, req, heard.hear)
	denied := closeEgress()
	release()
	if err != nil {
		return s.lost(ctx, err, heard, time.Since(began))
	}
	s.refine(ctx, res)
	res.EgressDenied = denied
	return res, nil
}

// guard hangs up when the pod has ended and yet the runner says nothing: a
// kernel of its own, or a node, that ends takes its network along, and nobody is
// left to close the connection.
func (s *sandbox) guard() (release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended := s.driver.roster.await(ctx, s.entry, forever, func(v view) bool {
			if v.pod == nil || v.gone {
				return v.gone
			}
			_, yes := over(v.pod)
			return yes
		})
		// Its last words may be on their way.
		if ended && sleep(ctx, s.driver.opts.LookBound/2) {
			s.end()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// lost says how a run ended of which the runner told no end.
func (s *sandbox) lost(ctx context.Context, err error, heard *heard, ran time.Duration) (*wire.Result, error) {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		e = api.Errorf(api.SandboxLost, "cannot finish the run: the sandbox was lost: %w", err).MaybeRan()
	}
	if ctx.Err() != nil || e.Code != api.SandboxLost {
		return nil, e
	}
	end, why := s.look(ctx)
	switch {
	case end != nil && e.Executed != api.No:
		return heard.result(end, ran, s.driver.opts.Pods.isolation()), nil
	case end != nil:
		why = end.reason
	}
	if why != "" {
		told := *e
		told.Message += ": " + why
		return nil, &told
	}
	return nil, e
}

// look waits until the pod's status tells how it ended, for a bounded time.
func (s *sandbox) look(ctx context.Context) (end *ending, why string) {
	return lookAt(ctx, s.driver, s.entry)
}

func lookAt(ctx context.Context, d *Driver, e *entry) (end *ending, why string) {
	destroyed := false
	d.roster.await(ctx, e, d.opts.LookBound, func(v view) bool {
		if end = endingOf(v.pod); end != nil {
			return true
		}
		if v.pod != nil {
			if said, yes := over(v.pod); yes {
				why = said
				return true
			}
		}
		destroyed = v.destroying
		return v.gone || v.destroying
	})
	if end == nil && destroyed {
		why = "it was destroyed"
	}
	return end, why
}

// refine names what the runner could not know: the kernel counts memory that
// ran out for the container, and its status tells when the runner has ended.
func (s *sandbox) refine(ctx context.Context, res *wire.Result) {
	if res.Outcome != wire.Killed || res.ExitCode != exitKilled {
		return
	}
	if end, _ := s.look(ctx); end != nil && end.outcome == wire.OutOfMemory {
		res.Outcome, res.Reason = end.outcome, end.reason
	}
}

// heard keeps what a run wrote, for a result that its runner cannot give any
// more.
type heard struct {
	sink wire.Sink
	most int
	kept [2]strings.Builder
	size [2]int64
}

func (h *heard) hear(to wire.Stream, text string) {
	i := 0
	switch to {
	case wire.Stdout:
	case wire.Stderr:
		i = 1
	default:
		i = -1
	}
	if i >= 0 {
		h.size[i] += int64(len(text))
		if room := h.most - h.kept[i].Len(); room > 0 {
			h.kept[i].WriteString(strings.ToValidUTF8(text[:min(room, len(text))], "�"))
		}
	}
	if h.sink != nil {
		h.sink(to, text)
	}
}

func (h *heard) result(end *ending, ran time.Duration, isolation string) *wire.Result {
	return &wire.Result{
		Stdout: h.kept[0].String(), StdoutBytes: h.size[0], StdoutTruncated: int64(h.kept[0].Len()) < h.size[0],
		Stderr: h.kept[1].String(), StderrBytes: h.size[1], StderrTruncated: int64(h.kept[1].Len()) < h.size[1],
		ExitCode: exitKilled, Outcome: end.outcome, Reason: end.reason, Denied: []wire.Denial{},
		Files: []wire.File{}, FilesOmitted: []wire.OmittedFile{},
		DurationMS: float64(ran) / float64(time.Millisecond), Isolation: isolation,
	}
}
