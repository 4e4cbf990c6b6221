package sidecar

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// toolResult is a run's result for a model: what it reads as text, pictures
// as pictures, and the whole result as structured content.
func toolResult(r *wire.Result) *mcp.CallToolResult {
	whole := *lists(r)
	res := &mcp.CallToolResult{IsError: r.Outcome != wire.OK}
	say := func(text string) { res.Content = append(res.Content, &mcp.TextContent{Text: text}) }
	if r.Stdout != "" {
		say(r.Stdout)
	}
	if r.StdoutTruncated {
		say(fmt.Sprintf("(stdout was cut: the program wrote %d bytes)", r.StdoutBytes))
	}
	if r.Value != nil {
		say("result: " + *r.Value)
	}
	if r.Stderr != "" {
		say("stderr:\n" + r.Stderr)
	}
	if r.StderrTruncated {
		say(fmt.Sprintf("(stderr was cut: the program wrote %d bytes)", r.StderrBytes))
	}
	if names := fileNames(r); names != "" {
		say(names)
	}
	if len(res.Content) == 0 || r.Outcome != wire.OK {
		say(fmt.Sprintf("%s (exit code %d): %s", r.Outcome, r.ExitCode, r.Reason))
	}
	whole.Files = make([]wire.File, len(r.Files))
	for i, f := range r.Files {
		if block := picture(f); block != nil {
			res.Content = append(res.Content, block)
			f.Content = "" // sent once
		}
		whole.Files[i] = f
	}
	res.StructuredContent = &whole
	return res
}

// fileNames tells a model, which may not see the structured content, what
// files there are.
func fileNames(r *wire.Result) string {
	var lines []string
	for _, f := range r.Files {
		lines = append(lines, fmt.Sprintf("file %s (%s, %d bytes)", f.Path, f.MediaType, f.Size))
	}
	for _, f := range r.FilesOmitted {
		lines = append(lines, fmt.Sprintf("file %s (%d bytes) is not in the answer: %s", f.Path, f.Size, f.Reason))
	}
	return strings.Join(lines, "\n")
}

// picture is the block that shows a file, or nil. Models do not take SVG as a
// picture, but read it as text.
func picture(f wire.File) mcp.Content {
	data := []byte(f.Content)
	if f.Encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
			return nil
		}
	}
	media, _, _ := strings.Cut(f.MediaType, ";")
	switch media {
	case "image/png", "image/jpeg":
		return &mcp.ImageContent{Data: data, MIMEType: media}
	case "image/svg+xml":
		return &mcp.TextContent{Text: strings.ToValidUTF8(string(data), "\uFFFD")}
	}
	return nil
}
