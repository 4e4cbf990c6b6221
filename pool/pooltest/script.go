package pooltest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// The programs of the suite. A real driver runs them as Python; Script knows
// what each of them does.
const (
	programHello = "print('hello')\n"
	programExit3 = "import sys\nprint('oops', file=sys.stderr)\nsys.exit(3)\n"
	programRaise = "raise ValueError('wrong')\n"
	programValue = "40 + 2\n"
	programStdin = "import sys\nprint(sys.stdin.read().upper())\n"
	programTicks = "import time\nwhile True:\n    print('tick', flush=True)\n    time.sleep(0.02)\n"
	// programMark says whether an earlier run left its mark, and leaves one.
	programMark = "import os\nseen = os.path.exists('/tmp/mark') or os.path.exists('mark')\n" +
		"open('/tmp/mark', 'w').close()\nopen('mark', 'w').close()\nprint('seen' if seen else 'new')\n"
	// programMarkOwn does so where a sandbox shares its machine's /tmp.
	programMarkOwn = "import os, tempfile\nmarks = [os.path.join(tempfile.gettempdir(), 'mark'), 'mark']\n" +
		"seen = any(map(os.path.exists, marks))\nfor mark in marks:\n    open(mark, 'w').close()\n" +
		"print('seen' if seen else 'new')\n"
)

// Script is the RunFunc that knows the programs of the suite, and one more:
// "sleep 1.5" is ok after so many seconds.
func Script(ctx context.Context, s *FakeSandbox, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	out := &output{sink: sink}
	timeout := req.Timeout()
	if timeout == 0 {
		timeout = s.template.Limits.MaxRun
	}
	began := time.Now()
	switch req.Code {
	case programHello:
		return out.say(wire.Stdout, "hello\n").end(0, wire.OK), nil
	case programExit3:
		return out.say(wire.Stderr, "oops\n").end(3, wire.Failed), nil
	case programRaise:
		return out.say(wire.Stderr, "ValueError: wrong\n").end(1, wire.Failed), nil
	case programValue:
		value := "42"
		res := out.end(0, wire.OK)
		res.Value = &value
		return res, nil
	case programStdin:
		return out.say(wire.Stdout, strings.ToUpper(*req.Stdin)+"\n").end(0, wire.OK), nil
	case programMark, programMarkOwn:
		answer := "new\n"
		if s.Files["mark"] {
			answer = "seen\n"
		}
		s.Files["mark"] = true
		return out.say(wire.Stdout, answer).end(0, wire.OK), nil
	case programTicks:
		for time.Since(began) < timeout {
			out.say(wire.Stdout, "tick\n")
			if err := sleep(ctx, min(20*time.Millisecond, timeout)); err != nil {
				return nil, err
			}
		}
		return out.end(137, wire.Timeout), nil
	}
	text, isSleep := strings.CutPrefix(req.Code, "sleep ")
	n, err := strconv.ParseFloat(text, 64)
	if !isSleep || err != nil {
		return out.say(wire.Stderr, "SyntaxError\n").end(1, wire.Failed), nil
	}
	if err := sleep(ctx, time.Duration(n*float64(time.Second))); err != nil {
		return nil, err
	}
	return out.end(0, wire.OK), nil
}

// output is what a scripted program wrote.
type output struct {
	sink           wire.Sink
	stdout, stderr strings.Builder
}

func (o *output) say(to wire.Stream, text string) *output {
	if o.sink != nil {
		o.sink(to, text)
	}
	if to == wire.Stdout {
		o.stdout.WriteString(text)
	} else {
		o.stderr.WriteString(text)
	}
	return o
}

func (o *output) end(code int, outcome wire.Outcome) *wire.Result {
	return &wire.Result{
		Stdout: o.stdout.String(), StdoutBytes: int64(o.stdout.Len()),
		Stderr: o.stderr.String(), StderrBytes: int64(o.stderr.Len()),
		ExitCode: code, Outcome: outcome, Isolation: "none",
	}
}
