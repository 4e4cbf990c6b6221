package toolproxy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// TokenEnv names the variable that the hook takes its token from.
const TokenEnv = "CODE_SANDBOX_TOKEN"

// Bounds on a token. Fewer characters can be guessed.
const (
	minToken = 16
	maxToken = 256
)

// CheckToken says what is wrong with a token. Its characters go into a header as they are.
func CheckToken(token string) error {
	if len(token) < minToken || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("it must have 16 to 256 characters of ASCII, without spaces; make one with: openssl rand -hex 32")
	}
	return nil
}

// Door decides who may use the paths of a Proxy, by the Authorization header.
type Door func(authorization string) *api.Error

// Bearer is a Door for those who show the token.
func Bearer(token string) Door {
	want := sha256.Sum256([]byte(token)) // of one length: how long the token is cannot be told from the time either
	return func(authorization string) *api.Error {
		scheme, shown, _ := strings.Cut(authorization, " ")
		got := sha256.Sum256([]byte(shown))
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer") && token != "" {
			return nil
		}
		if authorization == "" {
			return api.Errorf(api.Unauthenticated, "tool calls need the token of this service, and the request has none: set "+TokenEnv+
				" in the agent's environment, or send it as Authorization: Bearer")
		}
		return api.Errorf(api.Unauthenticated, "the token is not that of this service: set "+TokenEnv+" in the agent's environment to the one that the service has")
	}
}

// Closed is a Door for nobody. The sentence says what to do.
func Closed(sentence string) Door {
	return func(string) *api.Error { return api.Errorf(api.Forbidden, "%s", sentence) }
}

type serveFunc = func(ctx context.Context, rc *fasthttp.RequestCtx, body []byte) (func(*bufio.Writer), *api.Error)

// behind is serve for those that the Door lets in.
func (p *Proxy) behind(serve serveFunc) serveFunc {
	if p.opts.Door == nil {
		return serve
	}
	return func(ctx context.Context, rc *fasthttp.RequestCtx, body []byte) (func(*bufio.Writer), *api.Error) {
		if err := p.opts.Door(string(rc.Request.Header.Peek(fasthttp.HeaderAuthorization))); err != nil {
			return nil, err
		}
		return serve(ctx, rc, body)
	}
}
