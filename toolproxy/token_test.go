package toolproxy

import (
	"bufio"
	"context"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Who does not show the token gets nothing from any path, and nothing is run or
// remembered.
func TestToken(t *testing.T) {
	ran := 0
	count := func(ctx context.Context, c *wire.Copy, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
		ran++
		return value(ctx, c, req, sink)
	}
	const token = "0123456789abcdef"
	ask := func(p *Proxy, path, authorization, body string) (err *api.Error) {
		for _, at := range p.Paths() {
			if at.Path == path {
				rc := &fasthttp.RequestCtx{}
				rc.Request.Header.Set("Authorization", authorization)
				var goOn func(*bufio.Writer)
				if goOn, err = at.Serve(t.Context(), rc, []byte(body)); err != nil && (len(rc.Response.Body()) > 0 || goOn != nil) {
					t.Errorf("%s answers beside its error", path)
				}
			}
		}
		return err
	}
	f := func(door Door, authorization string, code api.Code) {
		t.Helper()
		p := newProxy(t, count, func(o *Options) { o.Door = door })
		before := ran
		for path, body := range map[string]string{"/v1/tools/hello": bootJSON, "/v1/tools/call": callJSON, "/v1/tools": ""} {
			if err := ask(p, path, authorization, body); err == nil || err.Code != code || err.Executed != api.No {
				t.Errorf("%s: %v", path, err)
			}
		}
		if len(p.Boots()) > 0 || ran != before {
			t.Errorf("remembered are %v, and %d ran", p.Boots(), ran-before)
		}
	}
	f(Bearer(token), "", api.Unauthenticated)
	f(Bearer(token), "Bearer ", api.Unauthenticated)
	f(Bearer(token), "Bearer "+token[1:], api.Unauthenticated)
	f(Bearer(token), "Bearer "+token+"0", api.Unauthenticated)
	f(Bearer(token), "Basic "+token, api.Unauthenticated)
	f(Bearer(token), token, api.Unauthenticated)
	// A service that has no token lets nobody in, not one who shows none either.
	f(Bearer(""), "Bearer ", api.Unauthenticated)
	f(Closed("set it"), "Bearer "+token, api.Forbidden)
	// Who shows it is let in, and everybody where no Door is.
	for _, door := range []Door{Bearer(token), nil} {
		p := newProxy(t, count, func(o *Options) { o.Door = door })
		for _, path := range []string{"/v1/tools/hello", "/v1/tools/call", "/v1/tools"} {
			if err := ask(p, path, "bearer "+token, map[string]string{"/v1/tools/hello": bootJSON, "/v1/tools/call": callJSON}[path]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if ran != 2 {
		t.Errorf("%d calls ran", ran)
	}
}
