package sidecar

import (
	_ "embed"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// openAPI is the contract. Tests replay its examples and hold every answer
// against it.
//
//go:embed openapi.yaml
var openAPI []byte

func serveOpenAPI(ctx *fasthttp.RequestCtx, _ *exchange) *api.Error {
	ctx.SetContentType("application/yaml")
	ctx.Response.SetBodyRaw(openAPI)
	return nil
}
