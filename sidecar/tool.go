package sidecar

import (
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// toolName is the tool's name for a model, in every format.
const toolName = "run_python"

// serveTool answers GET /tool with a definition that can be handed to a model
// as it is.
func (s *Server) serveTool(ctx *fasthttp.RequestCtx, _ *exchange) *api.Error {
	l := s.limits()
	description, schema := l.describe(), l.schema()
	switch format := string(ctx.QueryArgs().Peek("format")); format {
	case "", "openai":
		return sendJSON(ctx, object{"type": "function", "function": object{
			"name": toolName, "description": description, "parameters": schema}})
	case "anthropic":
		return sendJSON(ctx, object{"name": toolName, "description": description, "input_schema": schema})
	case "mcp":
		return sendJSON(ctx, object{"name": toolName, "description": description, "inputSchema": schema})
	default:
		return api.Errorf(api.BadRequest, "the format is %q: it must be openai, anthropic or mcp", request.Clip(format))
	}
}

type object = map[string]any

// describe tells a model what a program finds, with no promise that is not
// kept.
func (l *Limits) describe() string {
	sb := l.Sandbox
	parts := []string{"Run a Python program in a new sandbox that is used once and then destroyed: no variable, file or package is kept from one call to the next."}
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if sb.PythonVersion != "" {
		say("The interpreter is Python %s.", sb.PythonVersion)
	}
	if len(sb.Preload) > 0 {
		say("Besides the standard library these packages are loaded: %s.", strings.Join(sb.Preload, ", "))
	}
	switch sb.Network {
	case "dns":
		say("There is no network: only DNS lookups work, so nothing can be downloaded or installed.")
	case "none":
		say("There is no network, not even DNS, so nothing can be downloaded or installed.")
	}
	say("A program may run %v seconds unless timeout_seconds says otherwise, and %v at most%s.", l.Request.DefaultTimeout, l.Request.MaxTimeout, sb.describeSizes())
	say("The answer has stdout, stderr, the exit code, the repr of the last statement when it is an expression, and why the program ended.")
	if sb.OutputBytes > 0 {
		say("Of each output %s are kept, the head and the tail.", size(int64(sb.OutputBytes)))
	}
	files := "Files written to the working directory come back with the answer, and so do open matplotlib figures, as PNG"
	if sb.FilesBytes > 0 {
		files += fmt.Sprintf("; together up to %s", size(sb.FilesBytes))
	}
	say("%s.", files)
	if sb.Isolation == "none" {
		say("Here the program is not isolated from the machine it runs on.")
	}
	return strings.Join(parts, " ")
}

func (sb *SandboxLimits) describeSizes() string {
	s := ""
	if sb.MemoryBytes > 0 {
		s += fmt.Sprintf(", with %s of memory", size(sb.MemoryBytes))
	}
	if sb.DiskBytes > 0 {
		s += fmt.Sprintf(", %s of disk", size(sb.DiskBytes))
	}
	if sb.Processes > 0 {
		s += fmt.Sprintf(", %d processes and threads", sb.Processes)
	}
	return s
}

// size is a number of bytes in words.
func size(n int64) string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.bytes)), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// schema is the JSON Schema of a request, for a model.
func (l *Limits) schema() object {
	text := func(description string) object { return object{"type": "string", "description": description} }
	return object{
		"type":                 "object",
		"required":             []string{"code"},
		"additionalProperties": false,
		"properties": object{
			"code": text("The program's source. Print what you want to see; the value of a last expression is returned too."),
			"timeout_seconds": object{"type": "number", "minimum": request.MinTimeout, "maximum": l.Request.MaxTimeout,
				"description": fmt.Sprintf("How long the program may run; %v by default.", l.Request.DefaultTimeout)},
			"stdin": text("Text on standard input; without it, reading gives end of file."),
			"args":  object{"type": "array", "items": object{"type": "string"}, "description": "sys.argv[1:]"},
			"env": object{"type": "object", "additionalProperties": object{"type": "string"},
				"description": "Extra environment variables. Names that start with LD_ or PYTHON are refused."},
			"files": object{"type": "array", "description": "Files laid in the working directory before the program starts.",
				"items": object{"type": "object", "required": []string{"path", "content"}, "additionalProperties": false,
					"properties": object{
						"path":     text("Relative to the working directory."),
						"content":  text("The file's content, in the encoding."),
						"encoding": object{"type": "string", "enum": []string{"utf-8", "base64"}, "default": "utf-8"},
					}}},
		},
	}
}

// serveLimits answers GET /limits.
func (s *Server) serveLimits(ctx *fasthttp.RequestCtx, _ *exchange) *api.Error {
	l := s.limits()
	if l.Sandbox.Preload == nil {
		l.Sandbox.Preload = []string{}
	}
	return sendJSON(ctx, struct {
		Version string `json:"version"`
		Limits
	}{s.Version, l})
}
