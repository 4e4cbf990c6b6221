package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Exit codes of "code-sandbox run" that are not the program's own, as timeout(1)
// and shells have them.
const (
	runTimedOut    = 124
	runFailed      = 125 // ours or the service's failure
	runInterrupted = 130
	runOutOfMemory = 137
)

// errRun marks that the program's end is not known.
var errRun = errors.New("cannot run the program")

// errKeep marks that the program ran and what it left is not all here.
var errKeep = errors.New("cannot keep the program's files")

// run executes a program on a service and ends as it did.
func run(ctx context.Context, o runOptions) error {
	req, err := o.request(os.Stdin)
	if err != nil {
		return fmt.Errorf("%w: %w", errRun, err)
	}
	out := output{stdout: os.Stdout, stderr: os.Stderr, json: o.json}
	res, err := o.send(ctx, req, &out)
	if ctx.Err() != nil {
		return exitCode(runInterrupted) // the closed connection has ended the run
	}
	if err == nil {
		err = out.finish(res)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errRun, err)
	}
	if err := o.keep(res); err != nil {
		return fmt.Errorf("%w: %w; the program itself ended with exit code %d (%s)", errKeep, err, res.ExitCode, res.Outcome)
	}
	return codeError(o.exit(res))
}

// send posts the request and follows the answer.
func (o *runOptions) send(ctx context.Context, req *wire.Request, out *output) (*answer, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url+"/run_python", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	call.Header.Set("Content-Type", "application/json")
	call.Header.Set("Accept", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(call)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("no service answers at %s: start one with \"code-sandbox local\", or name another with --url", o.url)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return nil, errors.New("the service went away before it answered; some of the program may have run")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot reach the service: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		return nil, refusal(resp)
	}
	return out.follow(resp.Body)
}

// refusal is the service's own sentence, where there is one.
func refusal(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var said struct{ Error *api.Error }
	if err != nil || json.Unmarshal(body, &said) != nil || said.Error == nil {
		return fmt.Errorf("what answers is not Code Sandbox: status %s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	return failure(said.Error)
}

// failure is the service's sentence, and whether the program may have run.
func failure(e *api.Error) error {
	if e.Executed == api.Maybe {
		return fmt.Errorf("%w (%s; some of the program may have run)", e, e.Code)
	}
	return fmt.Errorf("%w (%s; nothing of the program ran)", e, e.Code)
}

// answer is the last event of a stream.
type answer struct {
	wire.Result
	StdoutReplaces bool `json:"stdout_replaces"`
	StderrReplaces bool `json:"stderr_replaces"`
	StdoutStreamed bool `json:"stdout_streamed"`
	StderrStreamed bool `json:"stderr_streamed"`
}

// output writes what a program writes to our outputs, as it comes.
type output struct {
	stdout, stderr io.Writer
	json           bool
	streamed       map[wire.Stream]*bytes.Buffer // with json, for the whole answer
}

// follow reads the events to the end.
func (o *output) follow(body io.Reader) (*answer, error) {
	o.streamed = map[wire.Stream]*bytes.Buffer{wire.Stdout: {}, wire.Stderr: {}}
	for events := bufio.NewReader(body); ; {
		line, err := events.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("the service went away during the run: %w", err)
		}
		var event struct {
			Event string     `json:"event"`
			Text  string     `json:"text"`
			Error *api.Error `json:"error"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("cannot understand the service: %w", err)
		}
		switch event.Event {
		case "stdout", "stderr":
			err = o.write(wire.Stream(event.Event), event.Text)
		case "error":
			if event.Error == nil {
				return nil, errors.New("the service failed and does not say why")
			}
			return nil, failure(event.Error)
		case "end":
			var a answer
			if err := json.Unmarshal(line, &a); err != nil {
				return nil, fmt.Errorf("cannot understand the service: %w", err)
			}
			return &a, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (o *output) write(to wire.Stream, text string) error {
	var w io.Writer = o.streamed[to]
	switch {
	case o.json:
	case to == wire.Stdout:
		w = o.stdout
	default:
		w = o.stderr
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("cannot write the program's %s: %w", to, err)
	}
	return nil
}

// finish writes what was not streamed: the rest of each output, or the whole
// answer. What a rest replaces has been written, so that it is told apart.
func (o *output) finish(a *answer) error {
	if o.json {
		a.Stdout = o.whole(wire.Stdout, a.Stdout, a.StdoutReplaces)
		a.Stderr = o.whole(wire.Stderr, a.Stderr, a.StderrReplaces)
		enc := json.NewEncoder(o.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(a.Result)
	}
	for _, rest := range []struct {
		to                 wire.Stream
		text               string
		replaces, streamed bool
	}{{wire.Stdout, a.Stdout, a.StdoutReplaces, a.StdoutStreamed}, {wire.Stderr, a.Stderr, a.StderrReplaces, a.StderrStreamed}} {
		if rest.streamed {
			continue // it has been shown to its end
		}
		if rest.replaces {
			_, _ = fmt.Fprintf(o.stderr, "code-sandbox: not all of %s could be shown as it came; what was kept of it follows.\n", rest.to)
		}
		if err := o.write(rest.to, rest.text); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) whole(which wire.Stream, rest string, replaces bool) string {
	if replaces {
		return rest
	}
	return o.streamed[which].String() + rest
}

// exit is our exit code for the program's end; an end that is not the
// program's own is told in one sentence.
func (o *runOptions) exit(a *answer) int {
	if a.Outcome != wire.OK && a.Outcome != wire.Failed && !o.json {
		fmt.Fprintf(os.Stderr, "code-sandbox: %s\n", a.Reason)
	}
	switch a.Outcome {
	case wire.Timeout:
		return runTimedOut
	case wire.OutOfMemory:
		return runOutOfMemory
	}
	return a.ExitCode
}
