package sidecar

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// send writes a request as it is and reads its answer.
func send(t *testing.T, s *testServer, request string) reply {
	t.Helper()
	c := dial(t, s)
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	for err == nil && res.StatusCode == http.StatusContinue {
		res, err = http.ReadResponse(r, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(b)}
}

// A request that can be read in two ways is not read in one of them.
func TestRepeatedHeaders(t *testing.T) {
	s := start(t, echo)
	run := func(lines ...string) reply {
		t.Helper()
		return send(t, s, "POST /run_python HTTP/1.1\r\nHost: localhost\r\n"+strings.Join(lines, "\r\n")+"\r\nContent-Length: 12\r\n\r\n"+`{"code":"x"}`)
	}
	const kind = "Content-Type: application/json"
	refuses := func(want string, lines ...string) {
		t.Helper()
		if e := run(lines...).error(t); e.Code != api.BadRequest || e.Executed != api.No || !strings.Contains(e.Message, want) {
			t.Errorf("%q: %+v", lines, e)
		}
	}
	serves := func(lines ...string) {
		t.Helper()
		run(lines...).result(t)
	}
	// Two values, in either order, in any case, and the same twice.
	refuses("more than one Content-Type", kind, "Content-Type: text/x-python")
	refuses("more than one Content-Type", "content-type: text/x-python", kind)
	refuses("more than one Content-Type", kind, kind)
	refuses("more than one Authorization", kind, "Authorization: Bearer a", "Authorization: Bearer b")
	refuses("more than one Origin", kind, "Origin: http://localhost", "Origin: http://evil.test")
	refuses("more than one Origin", kind, "Origin: http://localhost", "ORIGIN: http://localhost")
	refuses("more than one Sec-Fetch-Site", kind, "Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site")
	refuses("more than one Content-Encoding", kind, "Content-Encoding: identity", "Content-Encoding: gzip")
	refuses("more than one Expect", kind, "Expect: 100-continue", "Expect: something")
	refuses("more than one Expect", kind, "Expect: ", "Expect: something")
	refuses("more than one X-Request-Id", kind, "X-Request-Id: a", "X-Request-Id: b")
	refuses("more than one Traceparent", kind, "traceparent: a", "traceparent: b")
	// What cannot be met.
	refuses(`Expect is "something"`, kind, "Expect: something")
	refuses(`Expect is "100-continue, x"`, kind, "Expect: 100-continue, x")
	serves(kind, "Expect: 100-continue")
	// Keys: two, one twice, none.
	refuses("two different Idempotency-Key", kind, "Idempotency-Key: a", "Idempotency-Key: b")
	refuses("1 to 255", kind, "Idempotency-Key: ")
	serves(kind, "Idempotency-Key: a", "idempotency-key: a")
	// What a request may have more than once.
	serves(kind, "Accept: text/html", "Accept: */*", "Via: a", "Via: b", "X-Content-Type: a", "X-Content-Type: b")
	// Every path is guarded.
	if e := send(t, s, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: null\r\n\r\n").error(t); e.Code != api.BadRequest {
		t.Error(e)
	}
}

// What would be ignored is refused, and the parameter named.
func TestParameters(t *testing.T) {
	s := start(t, echo)
	f := func(method, path, want string) {
		t.Helper()
		e := do(t, method, s.url+path, strings.NewReader(`{"code":"x"}`), "Content-Type", "application/json").error(t)
		if e.Code != api.BadRequest || e.Executed != api.No || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %+v", path, e)
		}
	}
	f("POST", "/run_python?timeout=5", `/run_python has no parameter "timeout" in its URL: what a request says goes into its body`)
	f("POST", "/v1/run_python?x", `no parameter "x"`)
	f("POST", "/run_python?a%0Ab=1", `no parameter "a\nb"`)
	f("POST", "/mcp?session=1", `no parameter "session"`)
	f("GET", "/limits?verbose=1", `no parameter "verbose" in its URL: it has none`)
	f("GET", "/tool?fromat=mcp", `no parameter "fromat" in its URL: it has format`)
	f("GET", "/tool?format=mcp&format=openai", "format more than once")
	f("GET", "/healthz?x=1", `no parameter "x"`)
	f("GET", "/openapi.yaml?x=1", `no parameter "x"`)
	// None is none.
	post(t, s, `{"code":"x"}`).result(t)
	if r := do(t, "GET", s.url+"/tool?format=mcp", nil); r.status != 200 {
		t.Error(r)
	}
	if r := do(t, "GET", s.url+"/limits?", nil); r.status != 200 {
		t.Error(r)
	}
}

// A body that is over the limit is refused before it is asked for, and one that
// is not is asked for.
func TestExpectedBodyOverTheLimit(t *testing.T) {
	s := start(t, echo, func(o *Options) { o.Limits.Request.BodyBytes = 4 << 20 })
	f := func(path, headers string, length, want int) reply {
		t.Helper()
		c := dial(t, s)
		defer c.Close()
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\n%s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", path, headers, length); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != want {
			t.Errorf("%s %q %d: got status %d, want %d", path, headers, length, res.StatusCode, want)
		}
		if want == http.StatusContinue {
			return reply{}
		}
		if !res.Close {
			t.Errorf("%s: the connection stays open, and the body may come", path)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply{res.StatusCode, res.Header, string(b)}
	}
	const headers = "Host: localhost\r\nContent-Type: application/json"
	for _, path := range []string{"/run_python", "/mcp"} {
		if e := f(path, headers, 4194305, 413).error(t); !strings.Contains(e.Message, "the body has 4194305 bytes, over the limit of 4194304") {
			t.Error(e)
		}
		f(path, headers, 4194304, http.StatusContinue)
	}
	// Who may not ask at all is told that.
	f("/run_python", "Host: evil.test", 4194305, 403)
}
