package toolproxy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func TestStream(t *testing.T) {
	items := func(n int, res *wire.Result, err error) runner {
		return func(_ context.Context, _ *wire.Copy, _ *wire.Request, sink wire.Sink) (*wire.Result, error) {
			for i := range n {
				sink(wire.Item, fmt.Sprint(i))
				sink(wire.Stdout, "not an item")
			}
			return res, err
		}
	}
	streamed := strings.Replace(callJSON, `"stream":false`, `"stream":true`, 1)
	f := func(r runner, want string) {
		t.Helper()
		p := newProxy(t, r)
		hello(t, p)
		got, err := serve(t, t.Context(), p, "/v1/tools/call", streamed)
		if err != nil {
			got = "error " + string(err.Code)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("the stream is %q", got)
		}
		if n := p.inFlight.Load(); n != 0 {
			t.Errorf("%d calls are in flight", n)
		}
	}
	end := &wire.Result{Outcome: wire.OK, Call: []byte(`{"ok":true,"value":null}`)}
	f(items(3, end, nil), "{\"item\":0}\n{\"item\":1}\n{\"item\":2}\n{\"ok\":true,\"value\":null,")
	f(items(0, end, nil), `{"ok":true,"value":null,`)
	// More than may wait for the reader.
	f(items(100, end, nil), "{\"item\":0}\n")
	// A failure is the answer before the first item, and the last line after it.
	f(items(0, nil, api.Errorf(api.Busy, "b")), "error busy")
	f(items(1, nil, api.Errorf(api.Timeout, "t").MaybeRan()), "{\"item\":0}\n{\"error\":{\"code\":\"timeout\"")
	f(func(context.Context, *wire.Copy, *wire.Request, wire.Sink) (*wire.Result, error) { panic("boom") }, "error internal")
}
