package sidecar

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// newMCP makes the MCP server: stateless, so that any call may meet any
// sidecar, and answering in JSON.
func (s *Server) newMCP() http.Handler {
	server := s.newMCPServer(s.Limits)
	serve := func(*http.Request) *mcp.Server {
		if s.InForce == nil {
			return server
		}
		return s.newMCPServer(s.limits()) // what the tool promises is learnt
	}
	return mcp.NewStreamableHTTPHandler(serve, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		MaxRequestBodyBytes: int64(s.Limits.Request.BodyBytes),
	})
}

func (s *Server) newMCPServer(l Limits) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "code-sandbox", Title: "Code Sandbox", Version: s.Version},
		// No logging and no list that changes: every request stands alone.
		&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	no := false
	server.AddTool(&mcp.Tool{
		Name: toolName, Title: "Run Python", Description: l.describe(), InputSchema: l.schema(),
		// It changes nothing outside its sandbox and reaches nothing there.
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no},
	}, s.callTool)
	return server
}

// mcpCall is what a tool call must know of the HTTP request it came in. The
// SDK keeps a context's values for the call, but not always its end.
type mcpCall struct {
	trace api.Trace
	ended context.Context
}

type mcpKey struct{}

// callTool runs one tool call. Failures of ours are results with isError and
// the same sentence as on /run_python, so that a model can act on it.
func (s *Server) callTool(ctx context.Context, req *mcp.CallToolRequest) (res *mcp.CallToolResult, _ error) {
	call, _ := ctx.Value(mcpKey{}).(mcpCall)
	defer func() {
		// The SDK calls this in a goroutine of its own, out of reach of the
		// recover at the door.
		if p := recover(); p != nil {
			res = toolError(s.panicked(p, call.trace.RequestID))
		}
	}()
	args := req.Params.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	parsed, err := request.ParseJSON(args, s.limits().Request)
	if err != nil {
		return toolError(err), nil
	}
	if err := s.gate.enter(1, 0); err != nil {
		return toolError(err), nil
	}
	defer s.gate.leave(1, 0)
	c := s.launch(call.trace, parsed, nil, nil).board()
	defer c.leave(nil)
	for _, end := range []context.Context{ctx, call.ended} {
		if end != nil {
			defer context.AfterFunc(end, func() { c.leave(errGone) })()
		}
	}
	a := c.wait()
	if a.err != nil {
		e := sound(a.err)
		s.logFailure(&exchange{Trace: call.trace}, e)
		return toolError(e), nil
	}
	return toolResult(a.result), nil
}

func toolError(e *api.Error) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		IsError:           true,
		Content:           []mcp.Content{&mcp.TextContent{Text: e.Message}},
		StructuredContent: errorBody{sound(e)},
	}
}
