package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func TestWhatTheRunnerIsGiven(t *testing.T) {
	s := start(t, echo)
	f := func(body, want string) {
		t.Helper()
		if got := post(t, s, body).result(t).Stdout; got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
	// The least there is: the default timeout is filled in.
	f(`{"code":"print(1)"}`, `{"code":"print(1)","timeout_seconds":30}`)
	// An empty source runs (R4).
	f(`{"code":""}`, `{"code":"","timeout_seconds":30}`)
	// A NUL passes: the interpreter says SyntaxError (R4).
	f(`{"code":"a\u0000b"}`, `{"code":"a\u0000b","timeout_seconds":30}`)
	// CRLF, and a BOM in the source, are the interpreter's (R4).
	f(`{"code":"\ufeffx=1\r\n"}`, `{"code":"`+"\uFEFF"+`x=1\r\n","timeout_seconds":30}`)
	// A BOM before the JSON is passed over.
	f("\uFEFF"+`{"code":"x"}`, `{"code":"x","timeout_seconds":30}`)
	// A whole surrogate pair is one character.
	f(`{"code":"\ud83d\ude00 \\ud800"}`, `{"code":"😀 \\ud800","timeout_seconds":30}`)
	// The alias, and a fraction.
	f(`{"code":"x","timeout":1.5}`, `{"code":"x","timeout_seconds":1.5}`)
	// null stands for left out, as many clients write it.
	f(`{"code":"x","stdin":null,"args":null,"env":null,"files":null,"timeout":null}`, `{"code":"x","timeout_seconds":30}`)
	// An empty stdin is not no stdin.
	f(`{"code":"x","stdin":""}`, `{"code":"x","timeout_seconds":30,"stdin":""}`)
	// Everything at once, with white space and an escaped name.
	f(` { "code" : "x" , "arg\u0073":["a","é"],"env":{"A_1":"b"} , "timeout_seconds":300,
		"files":[{"path":"./d/a b.txt","content":"é"},{"path":"b","content":"AAE=","encoding":"base64","size":2,"media_type":"x"}]}`,
		`{"code":"x","timeout_seconds":300,"args":["a","é"],"env":{"A_1":"b"},"files":[{"path":"d/a b.txt","size":0,"content":"é"},{"path":"b","size":0,"content":"AAE=","encoding":"base64"}]}`)
}

func TestWhatIsRefused(t *testing.T) {
	s := start(t, echo, func(o *Options) { o.Limits.Request.Args = 2; o.Limits.Request.Env = 1; o.Limits.Request.Files = 3 })
	f := func(body, want string) {
		t.Helper()
		e := post(t, s, body).error(t)
		if e.Code != api.BadRequest || !strings.Contains(e.Message, want) || e.Executed != api.No || e.Retry {
			t.Errorf("%s\n got %+v\nwant bad_request with %q", body, e, want)
		}
	}
	// Not JSON at all, and not an object.
	f(``, "the body is empty")
	f(`{`, "not JSON")
	f(`{"code":"x"} x`, "not JSON")
	f(`[1]`, "must be a JSON object, not a list")
	f(`"x"`, "must be a JSON object, not a string")
	// code: missing, null, of another kind, half a character, not UTF-8.
	f(`{}`, `"code" is missing`)
	f(`{"code":null}`, "code must be a string, not null")
	f(`{"code":["x"]}`, "code must be a string, not a list")
	f(`{"code":"\ud800"}`, `the escape \ud800 is half of a surrogate pair`)
	f(`{"code":"\\\ud800\\ude00"}`, `the escape \ud800 is half`)
	f(`{"code":"a\udc00"}`, `the escape \udc00 is half`)
	f(`{"code":"\ud800\ud800\udc00"}`, `the escape \ud800 is half`)
	f("{\"code\":\"\xff\"}", "code must be UTF-8")
	f(`{"code":"a","code":"b"}`, `has "code" twice`)
	// Unknown fields, with the nearest known one. Case counts.
	f(`{"code":"x","timout":1}`, `unknown field "timout": did you mean "timeout"?`)
	f(`{"Code":"x"}`, `unknown field "Code": did you mean "code"?`)
	f(`{"source":"x"}`, `unknown field "source": did you mean "code"?`)
	f(`{"code":"x","zzzzzzzz":1}`, `the fields are code, timeout_seconds`)
	f(`{"code":"x","zzzzzzzz":null}`, `unknown field "zzzzzzzz"`)
	f(`{"code":"x","`+strings.Repeat("é", 9000)+`":1}`, `unknown field`)
	// timeout: kind, range, twice.
	f(`{"code":"x","timeout_seconds":"5"}`, "must be a number of seconds like 30, not a string")
	f(`{"code":"x","timeout_seconds":0}`, "timeout_seconds is 0 and must be at least 0.001")
	f(`{"code":"x","timeout":-1}`, "timeout is -1 and must be at least 0.001")
	f(`{"code":"x","timeout_seconds":300.5}`, "timeout_seconds is 300.5, over the limit of 300")
	f(`{"code":"x","timeout_seconds":1e400}`, "timeout_seconds must be a number of seconds like 30, and 1e400 is beyond all that can be told: 300 is the limit")
	f(`{"code":"x","timeout":-1e400}`, "and -1e400 is beyond all")
	f(`{"code":"x","timeout_seconds":1,"timeout":1}`, "not both")
	// stdin and args.
	f(`{"code":"x","stdin":5}`, "stdin must be a string, not a number")
	f(`{"code":"x","args":"a"}`, "args must be a list, not a string")
	f(`{"code":"x","args":["a",1]}`, "args[1] must be a string, not a number")
	f(`{"code":"x","args":["a\u0000"]}`, "args[0] holds a NUL")
	f(`{"code":"x","args":["a","b","c"]}`, "args has more than 2 entries")
	// env: names and values.
	f(`{"code":"x","env":[]}`, "env must be a JSON object, not a list")
	f(`{"code":"x","env":{"LD_PRELOAD":"x"}}`, `env may not set "LD_PRELOAD"`)
	f(`{"code":"x","env":{"PYTHONPATH":"x"}}`, `env may not set "PYTHONPATH"`)
	f(`{"code":"x","env":{"PYTHON":"x"}}`, `env may not set "PYTHON"`)
	f(`{"code":"x","env":{"":"x"}}`, "empty name")
	f(`{"code":"x","env":{"1A":"x"}}`, `the name "1A"`)
	f(`{"code":"x","env":{"A=B":"x"}}`, `the name "A=B"`)
	f(`{"code":"x","env":{"A\u0000":"x"}}`, `the name "A\x00"`)
	f(`{"code":"x","env":{"A":1}}`, `env["A"] must be a string, not a number`)
	f(`{"code":"x","env":{"A":"\u0000"}}`, `env["A"] holds a NUL`)
	f(`{"code":"x","env":{"A":"1","B":"2"}}`, "env has more than 1 entries")
	// files.
	file := func(members, want string) { t.Helper(); f(`{"code":"x","files":[{`+members+`}]}`, want) }
	f(`{"code":"x","files":{}}`, "files must be a list, not an object")
	f(`{"code":"x","files":["a"]}`, "files[0] must be a JSON object, not a string")
	file(`"content":"a"`, "files[0].path is missing")
	file(`"path":"a"`, "files[0].content is missing")
	file(`"path":"a","content":"","encodin":"utf-8"`, `did you mean "encoding"?`)
	file(`"path":"a","content":"","mode":"w"`, `files[0] has an unknown field "mode"`)
	file(`"path":"","content":""`, "files[0].path is empty")
	file(`"path":"/etc/passwd","content":""`, "must be relative to the working directory")
	file(`"path":"a/../../b","content":""`, `must not contain ".."`)
	file(`"path":"..","content":""`, `must not contain ".."`)
	file(`"path":".","content":""`, "the working directory itself")
	file(`"path":"a/","content":""`, "it names a folder")
	file(`"path":"a\u0000b","content":""`, "a path cannot hold a NUL")
	file(`"path":"./main.py","content":""`, "main.py is the program itself")
	file(`"path":"`+strings.Repeat("a", 256)+`","content":""`, "256 bytes, over the limit of 255")
	file(`"path":"`+strings.Repeat("a/", 600)+`b","content":""`, "1201 bytes, over the limit of 1024")
	file(`"path":"a","content":"","encoding":"hex"`, `files[0].encoding is "hex": it must be utf-8 or base64`)
	file(`"path":"a","content":"!","encoding":"base64"`, "files[0].content is not base64")
	file(`"path":"a","content":"AAA","encoding":"base64"`, "files[0].content is not base64")
	file(`"path":"a","content":""},{"path":"./a","content":""`, `files[1].path is "a", which another file has`)
	file(`"path":"a/b/c","content":""},{"path":"a","content":""`, `files has both "a" and "a/b/c"`)
	file(`"path":"a","content":""},{"path":"b","content":""},{"path":"c","content":""},{"path":"d","content":""`, "files has more than 3 entries")
}

func TestSourceAsTheBody(t *testing.T) {
	s := start(t, echo)
	run := func(source string) reply {
		t.Helper()
		return do(t, "POST", s.url+"/v1/run_python", strings.NewReader(source), "Content-Type", "text/x-python; charset=UTF-8")
	}
	f := func(source, want string) {
		t.Helper()
		if got := run(source).result(t).Stdout; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// As it is.
	f("print('é')\n", `{"code":"print('é')\n","timeout_seconds":30}`)
	// Empty runs.
	f("", `{"code":"","timeout_seconds":30}`)
	// JSON is not read as JSON here.
	f(`{"code":1}`, `{"code":"{\"code\":1}","timeout_seconds":30}`)
	// What is not UTF-8 is named with its place.
	if e := run("ab\xffc").error(t); e.Code != api.BadRequest || !strings.Contains(e.Message, "byte 2 is 0xff") {
		t.Error(e)
	}
}

// R5: sizes around the limits, and never a closed connection.
func TestSizes(t *testing.T) {
	s := start(t, func(_ context.Context, req *wire.Request, _ wire.Sink) (*wire.Result, error) {
		return &wire.Result{StdoutBytes: int64(len(req.Code))}, nil
	}, func(o *Options) { o.Limits.Request.BodyBytes = 4 << 20 })
	c := client(t)
	send := func(kind string, body io.Reader) reply {
		t.Helper()
		r, err := try(c, "POST", s.url+"/run_python", body, "Content-Type", kind)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	asJSON := func(n int) io.Reader {
		b, _ := json.Marshal(map[string]string{"code": strings.Repeat("x", n)})
		return strings.NewReader(string(b))
	}
	runs := func(n int) {
		t.Helper()
		for _, r := range []reply{send("application/json", asJSON(n)), send("text/x-python", strings.NewReader(strings.Repeat("x", n)))} {
			if got := r.result(t).StdoutBytes; got != int64(n) {
				t.Errorf("%d bytes arrived of %d", got, n)
			}
		}
	}
	refused := func(r reply, wants ...string) {
		t.Helper()
		e := r.error(t)
		for _, want := range wants {
			if e.Code != api.TooLarge || !strings.Contains(e.Message, want) {
				t.Errorf("got %+v, want too_large with %q", e, want)
			}
		}
	}
	// 200 KB and 1 MiB run.
	runs(200_000)
	runs(1 << 20)
	// One byte more is refused, with limit and size.
	refused(send("application/json", asJSON(1<<20+1)), "1048577", "1048576")
	refused(send("text/x-python", strings.NewReader(strings.Repeat("x", 1<<20+1))), "1048577", "1048576")
	// 5 MB is over the limit of the body.
	refused(send("application/json", asJSON(5_000_000)), fmt.Sprint(5_000_000+len(`{"code":""}`)), "4194304")
	// 100 MB, with its length said before and in chunks.
	huge := func() io.Reader { return io.LimitReader(zeros{}, 100_000_000) }
	refused(send("application/json", huge()), "100000000", "4194304")
	refused(send("application/json", strings.NewReader(strings.Repeat("x", 100_000_000))), "100000000", "4194304")
	// And a refusal before the body was looked at leaves the answer readable.
	if e := send("text/plain", huge()).error(t); e.Code != api.BadRequest {
		t.Error(e)
	}
	// The same connections go on.
	runs(10)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Headers that contradict themselves, or ask for what is not done.
func TestHeadersThatAreRefused(t *testing.T) {
	s := start(t, echo)
	f := func(want string, headers ...string) {
		t.Helper()
		if e := post(t, s, `{"code":"x"}`, headers...).error(t); e.Code != api.BadRequest || !strings.Contains(e.Message, want) {
			t.Errorf("%v: %v", headers, e)
		}
	}
	// Two keys: which one counts?
	f("two different Idempotency-Key", "Idempotency-Key", "a", "Idempotency-Key", "b")
	// An expectation that nobody meets.
	f(`the header Expect is "foo"`, "Expect", "foo")
	// The same key twice is one.
	if r := post(t, s, `{"code":"x"}`, "Idempotency-Key", "a", "Idempotency-Key", "a"); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}
