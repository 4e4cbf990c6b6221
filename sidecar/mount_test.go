package sidecar

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

func mounted(m Mounted) func(*Options) { return func(o *Options) { o.Mounts = append(o.Mounts, m) } }

func postTo(t *testing.T, url, contentType, origin, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestMount(t *testing.T) {
	s := start(t, echo, mounted(Mounted{Path: "/x", Method: "POST", BodyBytes: 8, Serve: func(_ context.Context, rc *fasthttp.RequestCtx, body []byte) (func(*bufio.Writer), *api.Error) {
		switch string(body) {
		case "panic":
			panic("boom")
		case "fail":
			return nil, api.Errorf(api.Unsandboxable, "no").Because("why")
		case "stream":
			return func(w *bufio.Writer) { fmt.Fprint(w, "a\nb\n") }, nil
		}
		rc.SetBody(body)
		return nil, nil
	}}))
	f := func(contentType, origin, body string, status int, says string) {
		t.Helper()
		got, text := postTo(t, s.url+"/x", contentType, origin, body)
		if got != status || !strings.Contains(text, says) {
			t.Errorf("%d %s", got, text)
		}
	}
	// The body reaches the handler and its answer the caller.
	f("application/json", "", "hello", 200, "hello")
	f("application/json", "", "stream", 200, "a\nb\n")
	// Errors and panics become answers.
	f("application/json", "", "fail", 422, `"reason":"why"`)
	f("application/json", "", "panic", 500, `"internal"`)
	// The door is the same as for runs.
	f("application/json", "http://evil.example", "hello", 403, "web pages")
	f("application/json", "", "far too long", 413, "limit of 8")
	f("text/x-python", "", "hello", 400, "application/json")
}

// The context of a mounted path ends when its caller hangs up.
func TestMountHangUp(t *testing.T) {
	var in, out atomic.Int64
	s := start(t, echo, mounted(Mounted{Path: "/x", Method: "POST", BodyBytes: 8, Serve: func(ctx context.Context, _ *fasthttp.RequestCtx, _ []byte) (func(*bufio.Writer), *api.Error) {
		in.Add(1)
		<-ctx.Done()
		out.Add(1)
		return nil, api.Errorf(api.SandboxLost, "gone").MaybeRan()
	}}))
	c := dial(t, s)
	if _, err := io.WriteString(c, "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the handler is called", func() bool { return in.Load() == 1 })
	c.Close()
	eventually(t, "its context ends", func() bool { return out.Load() == 1 })
}

func TestMountTwice(t *testing.T) {
	serve := func(context.Context, *fasthttp.RequestCtx, []byte) (func(*bufio.Writer), *api.Error) { return nil, nil }
	o := Options{}
	mounted(Mounted{Path: "/run_python", Method: "POST", Serve: serve})(&o)
	if err := o.Mounts[0].validate(map[string]route{"/run_python": {}}); err == nil {
		t.Error("a path was mounted over another")
	}
}
