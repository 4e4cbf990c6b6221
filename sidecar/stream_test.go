package sidecar

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// event is one event as a client reads it.
type event struct {
	Event          string
	Text           string
	Stdout, Stderr string
	StdoutReplaces bool `json:"stdout_replaces"`
	StderrReplaces bool `json:"stderr_replaces"`
	StdoutStreamed bool `json:"stdout_streamed"`
	StderrStreamed bool `json:"stderr_streamed"`
	Outcome        wire.Outcome
	Files          *[]wire.File
	Error          *api.Error
}

// listen opens a stream and returns a func that reads its next event, and nil
// at its end.
func listen(t *testing.T, s *testServer, kind events) (*http.Response, func() *event) {
	t.Helper()
	res, err := client(t).Do(newPost(t.Context(), s.url, `{"code":"x"}`, "Accept", string(kind)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	br := bufio.NewReader(res.Body)
	return res, func() *event {
		t.Helper()
		name := ""
		for {
			line, err := br.ReadString('\n')
			if err == io.EOF {
				return nil
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, ok := strings.CutPrefix(line, "event: "); ok && kind == sse {
				name = strings.TrimSpace(n)
				continue
			}
			if strings.HasPrefix(line, ":") {
				return &event{Event: strings.TrimSpace(line)}
			}
			if line = strings.TrimPrefix(line, "data: "); line == "\n" {
				continue
			}
			if err := mustContract(t).matches("Event", []byte(line)); err != nil {
				t.Error(err)
			}
			var e event
			if err := json.Unmarshal([]byte(line), &e); err != nil || kind == sse && e.Event != name {
				t.Fatalf("%v in %q, under %q", err, line, name)
			}
			return &e
		}
	}
}

func TestStream(t *testing.T) {
	for _, kind := range []events{sse, ndjson} {
		wrote := make(chan time.Time, 1)
		step := make(chan struct{})
		s := start(t, func(_ context.Context, _ *wire.Request, sink wire.Sink) (*wire.Result, error) {
			say := func(which wire.Stream, text string) {
				<-step
				wrote <- time.Now()
				sink(which, text)
			}
			say(wire.Stdout, "<é>\n\n")
			say(wire.Stderr, "oh")
			say(wire.Stdout, "two")
			<-step
			return &wire.Result{Stdout: "<é>\n\ntwo and the tail", Stderr: "oh", Outcome: wire.OK}, nil
		})
		go func() { step <- struct{}{} }()
		res, next := listen(t, s, kind)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != string(kind) {
			t.Error(res.StatusCode, res.Header)
		}
		quickest := time.Hour
		f := func(name, text string) {
			t.Helper()
			e := next()
			quickest = min(quickest, time.Since(<-wrote))
			if e == nil || e.Event != name || e.Text != text {
				t.Errorf("%s: got %+v, want %s %q", kind, e, name, text)
			}
			step <- struct{}{}
		}
		f("stdout", "<é>\n\n")
		f("stderr", "oh")
		f("stdout", "two")
		// They are sent as they come, and not when a buffer is full or a while is
		// over: that would hold up all of them, and a busy machine only some.
		if quickest > 50*time.Millisecond {
			t.Errorf("%s: the quickest event came after %v", kind, quickest)
		}
		// The end has the whole answer less what was streamed.
		if e := next(); e == nil || e.Event != "end" || e.Stdout != " and the tail" || e.Stderr != "" || e.StdoutReplaces || e.Outcome != wire.OK || e.Files == nil {
			t.Errorf("%+v", e)
		}
		if e := next(); e != nil {
			t.Errorf("after the end: %+v", e)
		}
		eventually(t, "it is counted", func() bool { return scrape(t, s)[`code_sandbox_sidecar_requests_total{code="ok"}`] == "1" })
	}
}

// When the head of what was kept is not what was streamed, the end replaces it.
func TestStreamOfWhatWasNotKept(t *testing.T) {
	s := start(t, func(_ context.Context, _ *wire.Request, sink wire.Sink) (*wire.Result, error) {
		sink(wire.Stdout, "abcdef")
		sink(wire.Stderr, "abc")
		return &wire.Result{Stdout: "abc…f", Stderr: "ab", StdoutTruncated: true}, nil
	})
	_, next := listen(t, s, ndjson)
	next()
	next()
	// Only what is past the limit was streamed to its end: who has shown it has shown all.
	if e := next(); e.Stdout != "abc…f" || !e.StdoutReplaces || !e.StdoutStreamed || e.Stderr != "ab" || !e.StderrReplaces || e.StderrStreamed {
		t.Errorf("%+v", e)
	}
}

func TestStreamFailures(t *testing.T) {
	fail := make(chan struct{})
	var first string
	s := start(t, func(_ context.Context, _ *wire.Request, sink wire.Sink) (*wire.Result, error) {
		sink(wire.Stdout, first)
		<-fail
		return nil, api.Errorf(api.SandboxLost, "lost").MaybeRan()
	})
	// Before the stream began the failure is the answer.
	go func() { fail <- struct{}{} }()
	if e := post(t, s, `{"code":"x"}`, "Accept", string(sse)).error(t); e.Code != api.SandboxLost {
		t.Error(e)
	}
	// After that it is an event.
	first = "out"
	res, next := listen(t, s, sse)
	if e := next(); e.Text != "out" || res.StatusCode != 200 {
		t.Error(e)
	}
	fail <- struct{}{}
	if e := next(); e.Event != "error" || e.Error.Code != api.SandboxLost || e.Error.Executed != api.Maybe {
		t.Errorf("%+v", e)
	}
	if e := next(); e != nil {
		t.Errorf("%+v", e)
	}
}

// A silent run begins its stream all the same, and keeps it alive.
func TestStreamKeepAlive(t *testing.T) {
	s := start(t, forever, func(o *Options) { o.StreamKeepAlive = 50 * time.Millisecond; o.Limits.Server.Wait = 1.5 })
	_, next := listen(t, s, sse)
	comments := 0
	for e := next(); e != nil; e = next() {
		switch e.Event {
		case ": keep-alive":
			comments++
		case "error":
			t.Error(e.Error)
		}
		if comments == 3 {
			return
		}
	}
	t.Errorf("%d comments", comments)
}

// R1: a reader that does not read costs a bounded amount; it gets what was
// kept at the end.
func TestSlowReader(t *testing.T) {
	flooded := make(chan struct{})
	s := start(t, func(_ context.Context, _ *wire.Request, sink wire.Sink) (*wire.Result, error) {
		defer close(flooded)
		piece := strings.Repeat("x", 64<<10)
		for range 2000 { // 128 MB
			sink(wire.Stdout, piece)
		}
		return &wire.Result{Stdout: strings.Repeat("x", 16<<20)}, nil
	})
	// The kernel's buffers hold some of it too, but not all.
	_, next := listen(t, s, ndjson)
	<-flooded
	got := 0
	for e := next(); e != nil; e = next() {
		got += len(e.Text) + len(e.Stdout)
		if e.StdoutReplaces {
			t.Error("replaced")
		}
	}
	if got != 16<<20 {
		t.Errorf("%d bytes came", got)
	}
}

func TestAccepted(t *testing.T) {
	f := func(want events, headers ...string) {
		t.Helper()
		var all [][]byte
		for _, h := range headers {
			all = append(all, []byte(h))
		}
		if got := accepted(all); got != want {
			t.Errorf("%q: got %q, want %q", headers, got, want)
		}
	}
	// None, anything, JSON, what there is not.
	f(noEvents)
	f(noEvents, "")
	f(noEvents, "*/*")
	f(noEvents, "text/*")
	f(noEvents, "application/json")
	f(noEvents, "text/html")
	// Of equals, the first.
	f(sse, "text/event-stream")
	f(sse, "text/html, text/event-stream, application/json")
	f(noEvents, "application/json, text/event-stream")
	f(ndjson, "application/x-ndjson, text/event-stream, */*")
	f(sse, "text/event-stream", "application/x-ndjson")
	// What is wanted more.
	f(ndjson, "Application/X-NDJSON; q=1")
	f(noEvents, "text/event-stream;q=0.9, application/json")
	f(sse, "application/json;q=0.5, text/event-stream;q=0.8, application/x-ndjson;q=0.7")
	f(ndjson, "text/event-stream;q=0.2", "application/x-ndjson;Q=0.3")
	f(sse, "*/*;q=0.1, text/event-stream; charset=utf-8; q=0.2")
	// The closest word counts.
	f(sse, "*/*, application/json;q=0.1, text/event-stream;q=0.5")
	f(noEvents, "application/*;q=0.1, text/event-stream;q=0.5, application/json")
	// Not wanted, and what is no weight.
	f(noEvents, "text/event-stream;q=0")
	f(noEvents, "text/event-stream;q=0, */*")
	f(ndjson, "text/event-stream;q=0.000, application/x-ndjson;q=0.001")
	f(noEvents, "text/event-stream;q=2")
	f(noEvents, "text/event-stream;q=NaN")
	f(noEvents, "text/event-stream;q=")
}
