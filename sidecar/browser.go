package sidecar

import (
	"net"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// sameHost refuses what a web page could send. A page the developer happens to
// have open can reach localhost: under a name of its own that resolves here
// (DNS rebinding), or across origins. Programs name the host they mean and
// send no Origin; no answer ever has a CORS header.
func (s *Server) sameHost(ctx *fasthttp.RequestCtx) *api.Error {
	host := string(ctx.Host())
	for _, asked := range []string{string(ctx.Request.Header.Host()), host} { // as it came, and as it is understood
		if !s.knownHost(asked) {
			return api.Errorf(api.Forbidden, "the Host %q is not served here: ask for localhost or 127.0.0.1%s", request.Clip(asked), s.HostsHint)
		}
	}
	if origin := ctx.Request.Header.Peek("Origin"); origin != nil && !strings.EqualFold(string(origin), "http://"+host) {
		return api.Errorf(api.Forbidden, "requests of web pages are refused, and this one has the Origin %q", request.Clip(string(origin)))
	}
	switch site := string(ctx.Request.Header.Peek("Sec-Fetch-Site")); site {
	case "cross-site", "same-site":
		return api.Errorf(api.Forbidden, "requests of web pages are refused, and this one says Sec-Fetch-Site: %s", site)
	}
	return nil
}

// knownHost takes localhost and the loopback addresses with any port, the
// listen address as it was given, and the configured names.
func (s *Server) knownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	switch name {
	case "localhost", "127.0.0.1", "::1":
		return true
	case "":
		return false
	}
	if listen, _, err := net.SplitHostPort(s.Listen); err == nil && name == strings.ToLower(listen) {
		return true
	}
	return slices.ContainsFunc(s.Hosts, func(known string) bool {
		return strings.EqualFold(known, name) || strings.EqualFold(known, host)
	})
}
