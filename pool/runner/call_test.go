package runner

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// fakeCopy is a Process whose other side is a func on the same socket.
func fakeCopy(t *testing.T, other func(conn net.Conn, exited chan<- syscall.WaitStatus)) *Process {
	t.Helper()
	ours, theirs := net.Pipe()
	out, outWrite := pipe(t)
	errs, errWrite := pipe(t)
	exited := make(chan syscall.WaitStatus, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		other(theirs, exited)
	}()
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
		outWrite.Close()
		errWrite.Close()
		<-done
	})
	return &Process{
		Control: ours, Stdout: out, Stderr: errs, Exited: exited, Interrupt: func() {}, Kill: func() {},
		Gone: func(time.Duration) bool { return true }, OOMKills: func() bool { return false },
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, w
}

// readRequest reads the one frame that a copy is sent, and returns its nonce.
func readRequest(conn net.Conn) string {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return ""
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		return ""
	}
	var asked struct{ Nonce string }
	if json.Unmarshal(body, &asked) != nil {
		return ""
	}
	return asked.Nonce
}

// answering sends each text as a frame; NONCE in it is the request's.
func answering(frames ...string) func(net.Conn, chan<- syscall.WaitStatus) {
	return func(conn net.Conn, exited chan<- syscall.WaitStatus) {
		nonce := readRequest(conn)
		for _, f := range frames {
			if writeBody(conn, []byte(strings.ReplaceAll(f, "NONCE", nonce))) != nil {
				return
			}
		}
		exited <- 0
	}
}

func testLimits() wire.Limits {
	l := wire.DefaultLimits()
	l.MaxRun = 5 * time.Second
	return l
}

// T18: what a copy may say, and what is refused.
func TestCallFrames(t *testing.T) {
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	f := func(frame string, want string) {
		t.Helper()
		p := fakeCopy(t, answering(frame))
		res, err := p.Call(t.Context(), &wire.Request{Call: []byte(`{"op":"call"}`)}, "secret", testLimits(), nil)
		switch {
		case err == nil && res.Call == nil && want == "":
		case err == nil && want != "" && string(res.Call) == want:
		case err != nil && want != "" && strings.Contains(err.Error(), want) && api.From(err).Executed == api.Maybe:
		default:
			t.Errorf("the answer is %+v, %v", res, err)
		}
	}
	// A value, and an exception; unknown fields are dropped.
	f(`{"kind":"result","nonce":"NONCE","ok":true,"value":1,"evil":2}`, `{"ok":true,"value":1}`)
	f(`{"kind":"result","nonce":"NONCE","ok":false,"error":{"kind":"tool_raised"}}`, `{"ok":false,"error":{"kind":"tool_raised"}}`)
	// A frame that does not know the nonce, or has none.
	f(`{"kind":"result","nonce":"guess","ok":true,"value":1}`, "does not carry the nonce")
	f(`{"kind":"result","ok":true,"value":1}`, "nonce is not a string")
	// No JSON, or JSON that no agent should have to read.
	f("\x80\x04K\x01.", "not JSON")
	f(`{"kind":"result","nonce":"NONCE","ok":true,"value":NaN}`, "not JSON")
	f(`{"kind":"result","nonce":"NONCE","ok":true,"value":`+deep+`}`, "nested deeper")
	f(`[1]`, "not a JSON object")
	// Words out of turn.
	f(`{"kind":"ready","nonce":"NONCE"}`, `a second "ready"`)
	f(`{"kind":"dance","nonce":"NONCE"}`, `its kind is "dance"`)
}

// A frame longer than any may be is refused before it is read.
func TestCallHugeFrame(t *testing.T) {
	p := fakeCopy(t, func(conn net.Conn, _ chan<- syscall.WaitStatus) {
		readRequest(conn)
		_, _ = conn.Write([]byte{0x40, 0, 0, 0})
	})
	_, err := p.Call(t.Context(), &wire.Request{Call: []byte(`{}`)}, "n", testLimits(), nil)
	if err == nil || !strings.Contains(err.Error(), "too large") || api.From(err).Executed != api.Maybe {
		t.Errorf("%v", err)
	}
}

// Items come in order; a refusal after one is not a refusal of nothing.
func TestCallItems(t *testing.T) {
	var got []string
	sink := func(s wire.Stream, text string) { got = append(got, string(s)+" "+text) }
	call := func(frames ...string) (*wire.Result, error) {
		got = nil
		return fakeCopy(t, answering(frames...)).Call(t.Context(), &wire.Request{Call: []byte(`{}`)}, "n", testLimits(), sink)
	}
	res, err := call(`{"kind":"item","nonce":"NONCE","item":[1, 2]}`, `{"kind":"item","nonce":"NONCE","item":"b"}`, `{"kind":"result","nonce":"NONCE","ok":true,"value":null}`)
	if err != nil || strings.Join(got, ",") != `item [1, 2],item "b"` || string(res.Call) != `{"ok":true,"value":null}` {
		t.Errorf("items %q, %v", got, err)
	}
	failed := `{"kind":"failed","nonce":"NONCE","error":{"code":"unsandboxable","reason":"result_type","message":"m","executed":"no"}}`
	f := func(want api.Executed, frames ...string) {
		t.Helper()
		_, err := call(frames...)
		e := api.From(err)
		if err == nil || e.Code != api.Unsandboxable || e.Reason != "result_type" || e.Executed != want {
			t.Errorf("%+v", e)
		}
	}
	f(api.No, failed)
	f(api.Maybe, `{"kind":"item","nonce":"NONCE","item":1}`, failed)
}

// A call that ends without a word has an outcome, and an agent that left an error.
func TestCallEndings(t *testing.T) {
	silent := func(conn net.Conn, _ chan<- syscall.WaitStatus) { readRequest(conn) }
	dying := func(conn net.Conn, exited chan<- syscall.WaitStatus) {
		readRequest(conn)
		exited <- syscall.WaitStatus(syscall.SIGSEGV)
	}
	leaving := func(conn net.Conn, exited chan<- syscall.WaitStatus) {
		readRequest(conn)
		exited <- 0
	}
	f := func(other func(net.Conn, chan<- syscall.WaitStatus), want wire.Outcome) {
		t.Helper()
		res, err := fakeCopy(t, other).Call(t.Context(), &wire.Request{Call: []byte(`{}`), TimeoutSeconds: 0.2}, "n", testLimits(), nil)
		if err != nil || res.Call != nil || res.Outcome != want {
			t.Errorf("%+v, %v", res, err)
		}
	}
	f(silent, wire.Timeout)
	f(dying, wire.Killed)
	f(leaving, wire.Failed)
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("gone")) })
	_, err := fakeCopy(t, silent).Call(ctx, &wire.Request{Call: []byte(`{}`)}, "n", testLimits(), nil)
	if e := api.From(err); err == nil || e.Code != api.SandboxLost || e.Executed != api.Maybe {
		t.Errorf("%v", err)
	}
}

func TestPrepare(t *testing.T) {
	f := func(other func(net.Conn, chan<- syscall.WaitStatus), code api.Code, reason, says string) {
		t.Helper()
		p := fakeCopy(t, other)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		err := Prepare(ctx, p.Control, p.Stdout, p.Stderr, "n", &wire.Copy{Boot: []byte(`{}`), Target: []byte(`{}`)})
		if code == "" {
			if err != nil {
				t.Error(err)
			}
			return
		}
		if e := api.From(err); err == nil || e.Code != code || e.Reason != reason || !strings.Contains(e.Message, says) || e.Executed != api.No {
			t.Errorf("%v", err)
		}
	}
	f(answering(`{"kind":"ready","nonce":"NONCE","stopped":""}`), "", "", "")
	// The copy's own word, the interpreter's end, and none at all.
	f(answering(`{"kind":"failed","nonce":"NONCE","error":{"code":"unsandboxable","reason":"made_at_run_time","message":"why","executed":"no"}}`),
		api.Unsandboxable, "made_at_run_time", "why")
	f(func(conn net.Conn, _ chan<- syscall.WaitStatus) { readRequest(conn); conn.Close() }, api.Unsandboxable, "import_failed", "ended the sandbox's interpreter")
	f(func(conn net.Conn, _ chan<- syscall.WaitStatus) { readRequest(conn) }, api.Unsandboxable, "import_timeout", "did not end in time")
	// What is not the protocol.
	f(answering(`{"kind":"ready","nonce":"other"}`), api.SandboxLost, "", "nonce")
	f(func(conn net.Conn, _ chan<- syscall.WaitStatus) {
		readRequest(conn)
		_, _ = conn.Write([]byte("XOSError(1)"))
	},
		api.SandboxLost, "", "OSError")
}

func FuzzParseFrame(f *testing.F) {
	f.Add([]byte(`{"kind":"result","nonce":"n","ok":true,"value":{"$t":"tuple","v":[1]}}`))
	f.Add([]byte(`{"kind":"item","nonce":"n","item":"\ud800"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		frame, err := parseFrame(body, "n")
		if err == nil && frame.kind == "result" && !json.Valid(frame.last) {
			t.Errorf("%q became %q", body, frame.last)
		}
	})
}
