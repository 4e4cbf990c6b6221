package sidecar

import (
	"context"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// onePixel is a PNG, as far as anybody here looks.
const onePixel = "iVBORw0KGgo="

// mcpRunner does what the program's text says.
func mcpRunner(ctx context.Context, req *wire.Request, _ wire.Sink) (*wire.Result, error) {
	res := &wire.Result{RunID: "r", SandboxID: "s", Outcome: wire.OK, Reason: "the program ended by itself"}
	switch req.Code {
	case "picture":
		res.Stdout = "two files\n"
		res.Files = []wire.File{
			{Path: "a.png", Size: 8, MediaType: "image/png", Content: onePixel, Encoding: "base64"},
			{Path: "a.svg", Size: 6, MediaType: "image/svg+xml", Content: "<svg/>", Encoding: "utf-8"},
			{Path: "a.csv", Size: 3, MediaType: "text/csv; charset=utf-8", Content: "1,2", Encoding: "utf-8"},
		}
	case "fails":
		res.Stderr, res.ExitCode, res.Outcome, res.Reason = "Traceback", 1, wire.Failed, "an exception was not caught"
	case "lost":
		return nil, api.Errorf(api.SandboxLost, "the sandbox went away").MaybeRan()
	case "panics":
		panic("oh")
	case "forever":
		return forever(ctx, req, nil)
	case "silent":
	default:
		value := "2"
		res.Stdout, res.Value = req.Code+" "+strings.Join(req.Args, ","), &value
	}
	return res, nil
}

func connect(t *testing.T, s *testServer) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: client(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func TestMCPWithTheGoClient(t *testing.T) {
	s := start(t, mcpRunner)
	session := connect(t, s)
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "run_python" || !strings.Contains(tools.Tools[0].Description, "only DNS lookups work") {
		t.Fatalf("%v %+v", err, tools)
	}
	// call returns the blocks as text, pictures as their media type.
	call := func(args any) (blocks []string, structured map[string]any, isError bool) {
		t.Helper()
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_python", Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range res.Content {
			switch c := c.(type) {
			case *mcp.TextContent:
				blocks = append(blocks, c.Text)
			case *mcp.ImageContent:
				blocks = append(blocks, c.MIMEType)
			}
		}
		structured, _ = res.StructuredContent.(map[string]any)
		return blocks, structured, res.IsError
	}
	f := func(args any, wantError bool, want ...string) map[string]any {
		t.Helper()
		blocks, structured, isError := call(args)
		if !slices.Equal(blocks, want) || isError != wantError {
			t.Errorf("%v: got %q %v, want %q %v", args, blocks, isError, want, wantError)
		}
		return structured
	}
	code := func(c string) object { return object{"code": c} }
	// Output, and the value.
	whole := f(object{"code": "x", "args": []string{"a", "b"}}, false, "x a,b", "result: 2")
	if whole["stdout"] != "x a,b" || whole["result"] != "2" || whole["outcome"] != "ok" {
		t.Error(whole)
	}
	// Nothing written: the model still reads something.
	f(code("silent"), false, "ok (exit code 0): the program ended by itself")
	// The program fails: an error, with why.
	f(code("fails"), true, "stderr:\nTraceback", "error (exit code 1): an exception was not caught")
	// Pictures as pictures, SVG as text; what was sent is not sent twice.
	whole = f(code("picture"), false, "two files\n",
		"file a.png (image/png, 8 bytes)\nfile a.svg (image/svg+xml, 6 bytes)\nfile a.csv (text/csv; charset=utf-8, 3 bytes)", "image/png", "<svg/>")
	var contents []any
	for _, file := range whole["files"].([]any) {
		contents = append(contents, file.(map[string]any)["content"])
	}
	if !slices.Equal(contents, []any{"", "", "1,2"}) {
		t.Error(contents)
	}
	// Failures of ours, in the same sentence, with the code.
	whole = f(code("lost"), true, "the sandbox went away")
	if b, _ := json.Marshal(whole); string(b) != `{"error":{"code":"sandbox_lost","executed":"maybe","message":"the sandbox went away","retryable":true}}` {
		t.Error(string(b))
	}
	f(object{"source": "x"}, true, `the body has an unknown field "source": did you mean "code"?`)
	f(object{}, true, `"code" is missing: give the program's source as a string`)
	if blocks, _, isError := call(code("panics")); !isError || !strings.Contains(blocks[0], "the sidecar failed on this request") {
		t.Error(blocks)
	}
}

// A client that gives up ends the run, in every revision of the protocol.
func TestMCPHangUp(t *testing.T) {
	var inRun atomic.Int64
	s := start(t, counting(&inRun, "forever"))
	f := func(call string, headers ...string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req := newPost(ctx, s.url, call, append(headers, "Accept", "application/json, text/event-stream")...)
		req.URL.Path = "/mcp"
		go func() {
			if res, err := client(t).Do(req); err == nil {
				res.Body.Close()
			}
		}()
		eventually(t, "the run begins", func() bool { return inRun.Load() == 1 })
		at := time.Now()
		cancel()
		eventually(t, "the run is ended", func() bool { return inRun.Load() == 0 && s.gate.inFlight() == 0 })
		if took := time.Since(at); took > time.Second {
			t.Errorf("took %v", took)
		}
	}
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"forever"}}}`)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"forever"}}}`, "Mcp-Protocol-Version", "2025-06-18")
}

// What the SDK refuses in plain text is an error of ours.
func TestMCPRefusals(t *testing.T) {
	s := start(t, mcpRunner, func(o *Options) { o.Limits.Request.BodyBytes = 1 << 20 })
	f := func(method, body string, code api.Code, want string, headers ...string) {
		t.Helper()
		if e := do(t, method, s.url+"/mcp", strings.NewReader(body), headers...).error(t); e.Code != code || !strings.Contains(e.Message, want) {
			t.Errorf("got %+v, want %s %q", e, code, want)
		}
	}
	jsonHeaders := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	f("GET", "", api.MethodNotAllowed, "asked for with POST")
	f("POST", "{}", api.BadRequest, "Content-Type must be 'application/json'")
	f("POST", "{}", api.BadRequest, "Accept must contain", "Content-Type", "application/json")
	f("POST", "{", api.BadRequest, "MCP server refuses", jsonHeaders...)
	f("POST", strings.Repeat(" ", 5<<20), api.TooLarge, "5242880", jsonHeaders...)
	f("POST", "{}", api.Forbidden, "Origin", append(jsonHeaders, "Origin", "http://evil.test")...)
}

// The official Python client, of a pinned version, in a virtual environment
// that is kept in the user's cache.
const pythonClient = "mcp==2.3.0"

//go:embed testdata/mcp_client.py
var pythonTest string

func TestMCPWithThePythonClient(t *testing.T) {
	s := start(t, mcpRunner)
	python := venv(t, pythonClient)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-c", pythonTest, s.url+"/mcp", onePixel)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "all is well\n") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// venv makes a virtual environment with one package, or takes the one that an
// earlier test made.
func venv(t *testing.T, requirement string) (python string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "code-sandbox-test", "venv-"+requirement)
	python = filepath.Join(dir, "bin", "python")
	whole := filepath.Join(dir, "whole") // written last
	if _, err := os.Stat(whole); err == nil {
		return python
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", dir},
		{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("cannot make the environment of the Python client: %v: %v\n%s", args, err, out)
		}
	}
	if err := os.WriteFile(whole, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return python
}

// A method that is not served is told in JSON-RPC.
func TestMCPUnknownMethod(t *testing.T) {
	s := start(t, fake(mcpRunner))
	f := func(body string, status int, want string) {
		t.Helper()
		r := do(t, "POST", s.url+"/mcp", strings.NewReader(body), "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		if r.status != status || !strings.Contains(r.body, want) || want == "" && r.body != "" {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	// A request, whose id comes back as it was.
	f(`{"jsonrpc":"2.0","id":"a","method":"nope/nope","params":{}}`, 200, `"id":"a"`)
	f(`{"jsonrpc":"2.0","id":7,"method":"nope/nope"}`, 200, `"code":-32601`)
	// A notification has no answer.
	f(`{"jsonrpc":"2.0","method":"nope"}`, 202, "")
	// What is no JSON-RPC is refused as before.
	f(`{"id":7,"method":"nope"}`, 400, "the MCP server refuses")
}
