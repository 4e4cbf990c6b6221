package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	maxReady      = 1 << 20 // bytes of the answer to prepare
	prepareOutput = 4 << 10 // kept of what an import prints, for an error
)

// Prepare makes a copy ready: it hands the interpreter the boot record and the
// function, and waits until the program has been imported, or ctx ends. What
// the import prints is dropped. An error is an *api.Error of which no tool ran.
func Prepare(ctx context.Context, control net.Conn, stdout, stderr *os.File, nonce string, c *wire.Copy) error {
	request, err := json.Marshal(map[string]any{"op": "prepare", "boot": c.Boot, "target": c.Target, "nonce": nonce})
	if err != nil {
		return api.Errorf(api.Internal, "cannot write the boot record: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	out, errs := newCapture(stdout, prepareOutput, nil), newCapture(stderr, prepareOutput, nil)
	go out.read()
	go errs.read()
	frame, err := exchange(control, request, nonce)
	out.stop()
	errs.stop()
	stdout.SetReadDeadline(time.Time{})
	stderr.SetReadDeadline(time.Time{})
	switch {
	case ctx.Err() != nil:
		return notImported("import_timeout", "the import of the program did not end in time in the sandbox", errs)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE): // it left the request unread
		return notImported("import_failed", "the import of the program ended the sandbox's interpreter", errs)
	case err != nil:
		return api.Errorf(api.SandboxLost, "cannot make a copy of the program ready: %w", err)
	case frame.kind == "failed":
		return refusal(frame.error, api.No)
	case frame.kind != "ready":
		return api.Errorf(api.SandboxLost, "cannot make a copy of the program ready: it answered %q", frame.kind)
	}
	return nil
}

func notImported(reason, what string, errs *capture) *api.Error {
	if said := strings.TrimSpace(errs.text()); said != "" {
		what += "; it said: " + clip(printable(said, "\n\t"), 2000)
	}
	return api.Errorf(api.Unsandboxable, "%s", what).Because(reason)
}

func exchange(control net.Conn, request []byte, nonce string) (*callFrame, error) {
	control.SetWriteDeadline(time.Now().Add(sendBound))
	if err := writeBody(control, request); err != nil {
		return nil, err
	}
	body, err := readBody(control, maxReady)
	if err != nil {
		return nil, err
	}
	return parseFrame(body, nonce)
}

// refusal is the error that a copy's failed frame tells.
func refusal(raw json.RawMessage, executed api.Executed) *api.Error {
	var told struct {
		Code     api.Code     `json:"code"`
		Reason   string       `json:"reason"`
		Message  string       `json:"message"`
		Executed api.Executed `json:"executed"`
	}
	if err := json.Unmarshal(raw, &told); err != nil {
		return api.Errorf(api.SandboxLost, "the sandbox refused the call, and not in our words").MaybeRan()
	}
	code := api.Unsandboxable
	if told.Code == api.TooLarge {
		code = api.TooLarge
	}
	e := api.Errorf(code, "%s", clip(printable(told.Message, "\n\t"), 8000)).Because(word(told.Reason))
	// A copy may say that the body ran; that it did not is believed only as far
	// as nothing speaks against it.
	if executed != api.No || told.Executed != api.No {
		e = e.MaybeRan()
	}
	return e
}

// word is a reason as a label: a few letters, else nothing.
func word(s string) string {
	if len(s) > 40 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return s
}
