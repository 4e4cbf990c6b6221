package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	// maxCallFrame bounds one item or the result of a call: the most that the
	// limits of the hook allow, and its envelope.
	maxCallFrame = 12 << 20
	// maxItems bounds all items of a call together.
	maxItems = 128 << 20
)

// spoken is what a copy said of one call, so far.
type spoken struct {
	last  json.RawMessage // the result, less its kind and nonce
	ok    bool            // it is a value, not an exception
	err   *api.Error      // a refusal, or a frame that breaks the protocol
	items int             // bytes
}

// Call runs one tool call in a copy that Prepare has made ready; Execute's
// rules hold for how it ends, and so do its promises. A call that ended without
// a word of the copy has a result without Call, whose outcome says why.
func (p *Process) Call(ctx context.Context, req *wire.Request, nonce string, limits wire.Limits, sink wire.Sink) (*wire.Result, error) {
	start := time.Now()
	request, err := withNonce(req.Call, nonce)
	if err != nil {
		return nil, api.Errorf(api.BadRequest, "%w", err)
	}
	p.Control.SetDeadline(time.Time{})
	p.Control.SetWriteDeadline(start.Add(sendBound))
	if err := writeBody(p.Control, request); err != nil {
		// The copy calls nothing before it has the whole frame.
		return nil, api.Errorf(api.SandboxLost, "cannot hand the call to its sandbox: %w", err)
	}
	r := p.newRun(limits)
	r.capture(nil)
	go r.readCall(nonce, sink)

	end, err := r.wait(ctx, bound(req, limits))
	end.oomKills = r.OOMKills()
	if err != nil {
		return nil, err
	}
	v := end.verdict()
	var said *spoken
	if end.record != nil {
		said = end.record.call
	}
	if v.outcome == wire.OK && (said == nil || said.err == nil && said.last == nil) {
		v.outcome, v.reason = wire.Failed, "The tool ended its interpreter before it returned."
	}
	ended := said != nil && (v.outcome == wire.OK || v.outcome == wire.Failed)
	if ended && said.err != nil {
		return nil, said.err
	}
	res := r.result(v, nil)
	if ended {
		res.Call = said.last
		res.Reason = map[bool]string{true: "The tool returned.", false: "The tool raised an exception."}[said.ok]
	}
	res.DurationMS = float64(time.Since(start).Microseconds()) / 1000
	res.Timing.RunMS = res.DurationMS
	return res, nil
}

// readCall reads frames up to the last one. It ends with it, or when the
// control socket is closed.
func (r *run) readCall(nonce string, sink wire.Sink) {
	defer close(r.records)
	said := &spoken{}
	for said.last == nil && said.err == nil {
		body, err := readBody(r.words, maxCallFrame)
		if err != nil && !errors.Is(err, errTooLarge) {
			return // the process's end tells how the call ended
		}
		if err == nil {
			err = said.take(body, nonce, sink)
		}
		if err != nil {
			said.err = api.Errorf(api.SandboxLost, "the sandbox's answer was refused: %w", err).MaybeRan().Because("bad_frame")
		}
	}
	rec := &record{call: said}
	if !said.ok {
		rec.ExitCode = 1
	}
	r.records <- rec
}

// take adds one frame.
func (s *spoken) take(body []byte, nonce string, sink wire.Sink) error {
	f, err := parseFrame(body, nonce)
	if err != nil {
		return err
	}
	switch f.kind {
	case "item":
		if s.items += len(body); s.items > maxItems {
			return fmt.Errorf("its items have more than %d bytes together", maxItems)
		}
		if sink != nil {
			sink(wire.Item, string(f.item))
		}
	case "result":
		s.last, s.ok = f.last, f.ok
	case "failed":
		executed := api.No
		if s.items > 0 {
			executed = api.Maybe
		}
		s.err = refusal(f.error, executed)
	default:
		return fmt.Errorf("it is a second %q", f.kind)
	}
	return nil
}
