package request

import (
	"encoding/json"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// FuzzRequest gives the parser any bytes: it refuses, or makes a request that
// keeps every rule; where encoding/json reads the same body, both agree.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"code":"print(1)"}`, `{}`, `[]`, `{"code":"\ud83d\ude00","timeout":1}`, `{"code":"\ud800"}`, "\uFEFF{\"code\":\"\"}",
		`{"code":"x","args":["a"],"env":{"A":"b"},"stdin":"c","files":[{"path":"a/b","content":"AA==","encoding":"base64"}]}`,
		`{"code":"x","files":[{"path":"../a","content":""}]}`, `{"code":"x","env":{"LD_A":""}}`, `{"a":{"b":[1,{"c":"]}"}]},"code":"\""}`,
		"{\"code\":\"\xff\"}", `{"code":"x","timeout_seconds":-0.0e5}`, `{"co\u0064e":"\\\""}`, `{"code":null}`, ` {"code" : "x" , "args" : [ ] } `,
	} {
		f.Add([]byte(seed))
	}
	l := DefaultLimits()
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := ParseJSON(body, l)
		if err != nil {
			if req != nil || err.Message == "" || err.Executed != api.No || !utf8.ValidString(err.Message) {
				t.Fatalf("%+v with %+v", req, err)
			}
			return
		}
		check(t, req, l)
		var std wire.Request
		if err := json.Unmarshal([]byte(strings.TrimPrefix(string(body), "\uFEFF")), &std); err != nil {
			t.Fatalf("encoding/json does not read %q: %v", body, err)
		}
		if std.Code != req.Code || len(std.Args) != len(req.Args) || len(std.Env) != len(req.Env) || len(std.Files) != len(req.Files) ||
			(std.Stdin == nil) != (req.Stdin == nil) {
			t.Fatalf("%q: got %+v, encoding/json %+v", body, req, std)
		}
		for i, arg := range std.Args {
			if arg != req.Args[i] {
				t.Fatalf("args[%d]: %q, encoding/json %q", i, req.Args[i], arg)
			}
		}
	})
}

func check(t *testing.T, req *wire.Request, l Limits) {
	t.Helper()
	if !utf8.ValidString(req.Code) || len(req.Code) > l.CodeBytes || req.Timeout() <= 0 || req.TimeoutSeconds > float64(l.MaxTimeout) {
		t.Fatalf("%+v", req)
	}
	for name, value := range req.Env {
		if name == "" || strings.ContainsAny(name, "=\x00 ") || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "PYTHON") || strings.ContainsRune(value, 0) {
			t.Fatalf("env %q=%q", name, value)
		}
	}
	seen := map[string]bool{}
	for _, f := range req.Files {
		if f.Path != path.Clean(f.Path) || path.IsAbs(f.Path) || strings.HasPrefix(f.Path, "..") || strings.ContainsRune(f.Path, 0) || f.Path == "." || seen[f.Path] {
			t.Fatalf("path %q", f.Path)
		}
		seen[f.Path] = true
	}
}
