// Package runner runs one request in one started interpreter and judges how it
// ended. It stands beside hostile code: it bounds all it reads, believes none
// of it, and needs nothing but the standard library.
package runner

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// How long each step after the program's end may take.
const (
	interruptGrace = 250 * time.Millisecond // from the deadline's signal to the kill
	drainGrace     = 100 * time.Millisecond // for the last output of a killed tree
	deathGrace     = 30 * time.Second       // for a killed tree to be gone, on a machine that has far too much to do; who waits for a pod's run gives up before
	sendBound      = 20 * time.Second       // for the interpreter to take in its request
)

// Process is a started interpreter that blocks on its control socket (see
// python/bootstrap.py). Every field but Reserve and Closed must be set.
type Process struct {
	Control        net.Conn
	Stdout, Stderr *os.File // read ends, non-blocking
	// WorkDir is the program's working directory, open for reading.
	WorkDir *os.File
	// Reserve is for reading what is in WorkDir. A pod's has one, whose kernel may be
	// gVisor's; nil on one machine, whose kernel needs no descriptor for a folder that
	// it remembers.
	Reserve *Reserve
	// Exited receives the wait status of the interpreter, once; it is closed
	// when nobody is left to know it.
	Exited <-chan syscall.WaitStatus
	// Interrupt asks the program to flush and end; it may refuse.
	Interrupt func()
	// Kill ends everything that the program started, and it; it does not wait.
	Kill func()
	// Gone waits until nothing of the tree is left; false when it takes longer.
	Gone func(time.Duration) bool
	// Closed says that it was shown that no other machine answers, in a network that
	// looks as if one could.
	Closed bool
	// OOMKills says whether the memory limit has ended anything of the tree. It
	// is called once, when the program has ended.
	OOMKills func() bool
}

// run is one execution under way.
type run struct {
	*Process
	limits   wire.Limits
	out, err *capture
	words    *words
	records  chan *record
}

func (p *Process) newRun(limits wire.Limits) *run {
	return &run{Process: p, limits: limits, words: &words{conn: p.Control}, records: make(chan *record, 1)}
}

// Execute runs req and returns how it ended. The process cannot be used again,
// whatever comes back; what is left of it is the caller's to destroy. An error
// is an *api.Error.
func (p *Process) Execute(ctx context.Context, req *wire.Request, limits wire.Limits, sink wire.Sink) (*wire.Result, error) {
	start := time.Now()
	p.Control.SetWriteDeadline(start.Add(sendBound))
	if err := writeFrame(p.Control, req); err != nil {
		// The interpreter starts nothing before it has the whole frame.
		return nil, api.Errorf(api.SandboxLost, "cannot hand the program to its sandbox: %w", err)
	}
	r := p.newRun(limits)
	r.capture(sink)
	go r.readRecord()

	end, err := r.wait(ctx, bound(req, limits))
	end.oomKills = r.OOMKills()
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	res := r.result(end.verdict(), end.record)
	if err := r.collect(req, res); err != nil {
		return nil, api.Errorf(api.Internal, "%w", err).MaybeRan()
	}
	res.DurationMS = float64(took.Microseconds()) / 1000
	res.Timing.RunMS = res.DurationMS
	return res, nil
}

// bound is how long a run may take: without a timeout, the longest.
func bound(req *wire.Request, limits wire.Limits) time.Duration {
	if timeout := req.Timeout(); timeout > 0 {
		return timeout
	}
	return limits.MaxRun
}

func (r *run) capture(sink wire.Sink) {
	var out, err *live
	if sink != nil {
		mu := new(sync.Mutex)
		out = &live{sink: sink, stream: wire.Stdout, mu: mu}
		err = &live{sink: sink, stream: wire.Stderr, mu: mu}
	}
	r.out = newCapture(r.Stdout, r.limits.OutputBytes, out)
	r.err = newCapture(r.Stderr, r.limits.OutputBytes, err)
	go r.out.read()
	go r.err.read()
}

func (r *run) readRecord() {
	defer close(r.records)
	rec, err := readRecord(r.words)
	if err != nil {
		// Not a record. The program's end is told by its exit; what it still
		// writes here must not keep it from that.
		go io.Copy(io.Discard, r.words) //nolint:errcheck // ends with the socket, or when the program has ended
		return
	}
	r.records <- rec
}

// wait returns when the program has ended, with all its output captured.
func (r *run) wait(ctx context.Context, timeout time.Duration) (ending, error) {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	end := ending{limits: r.limits, closed: r.Closed}
	records := r.records
	for {
		select {
		case rec, ok := <-records:
			if !ok { // closed by the program, or garbage: its exit status will tell
				records = nil
				continue
			}
			end.record = rec
			r.out.stop()
			r.err.stop()
			return end, nil
		case status, ok := <-r.Exited:
			if !ok {
				r.killAndDrain()
				return end, api.Errorf(api.SandboxLost, "the sandbox went away during the run").MaybeRan()
			}
			end.status = status
			r.killAndDrain()
			end.record = r.lastRecord(records)
			return end, nil
		case <-deadline.C:
			end.timeout = timeout
			end.last = r.interrupt(records)
			r.killAndDrain()
			return end, nil
		case <-ctx.Done():
			r.killAndDrain()
			return end, stopped(ctx)
		}
	}
}

// stopped is the error of a run whose caller went away or ran out of time.
func stopped(ctx context.Context) *api.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return api.Errorf(api.Timeout, "the run was ended before its own timeout: %w", context.Cause(ctx)).MaybeRan()
	}
	return api.Errorf(api.SandboxLost, "the run was ended because its caller went away: %w", context.Cause(ctx)).MaybeRan()
}

// lastRecord is the record that a process which has ended had sent, if any.
// What it sent is there, however busy this machine is, and nothing more of its
// own will come: what a child that holds the socket says is not waited for.
func (r *run) lastRecord(records <-chan *record) *record {
	if records == nil {
		return nil
	}
	r.words.end()
	return <-records // closed without one when there is none
}

// interrupt lets the program flush what it has buffered, and say what it was at.
func (r *run) interrupt(records <-chan *record) *record {
	r.Interrupt()
	grace := time.NewTimer(interruptGrace)
	defer grace.Stop()
	select {
	case rec := <-records:
		return rec
	case <-r.Exited:
		return r.lastRecord(records)
	case <-grace.C:
	}
	return nil
}

func (r *run) killAndDrain() {
	r.Kill()
	limit := time.Now().Add(drainGrace)
	r.out.waitUntil(limit)
	r.err.waitUntil(limit)
	r.out.drain()
	r.err.drain()
}

func (r *run) result(v verdict, rec *record) *wire.Result {
	r.out.finishLive()
	r.err.finishLive()
	res := &wire.Result{
		Stdout: r.out.text(), StdoutBytes: r.out.total, StdoutTruncated: r.out.truncated(),
		Stderr: r.err.text(), StderrBytes: r.err.total, StderrTruncated: r.err.truncated(),
		ExitCode: v.exitCode, Outcome: v.outcome, Reason: v.reason, Denied: v.denied,
	}
	if rec != nil && rec.Result != nil {
		value := toText([]byte(*rec.Result))
		res.Value = &value
	}
	return res
}

// collect adds the files of the working directory. Only when there are any
// does the answer wait for the program's processes to be gone.
func (r *run) collect(req *wire.Request, res *wire.Result) error {
	if !touched(r.WorkDir) {
		return nil
	}
	r.Kill()
	if !r.Gone(deathGrace) {
		return errors.New("the sandbox's processes are still there after a kill")
	}
	var err error
	res.Files, res.FilesOmitted, err = collect(r.WorkDir, r.Reserve, req, r.limits.FilesBytes)
	return err
}
