package sidecar

import (
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

func TestBrowsers(t *testing.T) {
	s := start(t, echo, func(o *Options) { o.Hosts, o.HostsHint = []string{"sandbox.test"}, ", or set --hosts" })
	run := func(headers ...string) reply {
		t.Helper()
		r := post(t, s, `{"code":"x"}`, headers...)
		for name := range r.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%q has the header %s", headers, name)
			}
		}
		return r
	}
	serves := func(headers ...string) { t.Helper(); run(headers...).result(t) }
	refuses := func(want string, headers ...string) {
		t.Helper()
		if e := run(headers...).error(t); e.Code != api.Forbidden || e.Executed != api.No || !strings.Contains(e.Message, want) {
			t.Errorf("%q: %+v", headers, e)
		}
	}
	// The names of this machine, with any port, and a configured one.
	serves("Host", "localhost")
	serves("Host", "LocalHost:8900")
	serves("Host", "127.0.0.1:1")
	serves("Host", "[::1]:8900")
	serves("Host", "[::1]")
	serves("Host", "sandbox.test:80")
	// A name that was made to resolve here.
	refuses(`the Host "evil.test:8900" is not served here: ask for localhost or 127.0.0.1, or set --hosts`, "Host", "evil.test:8900")
	refuses("the Host", "Host", "localhost.evil.test")
	refuses("the Host", "Host", "0.0.0.0:8900")
	refuses("the Host", "Host", "127.0.0.1.evil.test:8900")
	refuses("the Host", "Host", "[::2]:8900")
	// What came is named, and not what it could be understood as.
	if e := send(t, s, "GET /healthz HTTP/1.1\r\nHost: a@localhost\r\n\r\n").error(t); e.Code != api.Forbidden || !strings.Contains(e.Message, `the Host "a@localhost" is not served`) {
		t.Error(e)
	}
	// A page of another origin, of none, of another port, of another scheme.
	refuses(`the Origin "https://evil.test"`, "Origin", "https://evil.test")
	refuses("the Origin", "Origin", "null")
	refuses("the Origin", "Origin", "")
	refuses("the Origin", "Host", "localhost:8900", "Origin", "http://localhost:3000")
	refuses("the Origin", "Host", "localhost:8900", "Origin", "https://localhost:8900")
	serves("Host", "localhost:8900", "Origin", "http://localhost:8900")
	// What a browser says by itself.
	refuses("Sec-Fetch-Site", "Sec-Fetch-Site", "cross-site")
	refuses("Sec-Fetch-Site", "Sec-Fetch-Site", "same-site")
	serves("Sec-Fetch-Site", "none")
	// The types of a form, which need no preflight, are not read.
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		if e := do(t, "POST", s.url+"/run_python", strings.NewReader(`{"code":"x"}`), "Content-Type", kind).error(t); e.Code != api.BadRequest {
			t.Error(e)
		}
	}
	// Every path is guarded, and a preflight gets nothing.
	if e := do(t, "GET", s.url+"/healthz", nil, "Host", "evil.test").error(t); e.Code != api.Forbidden {
		t.Error(e)
	}
	if e := do(t, "OPTIONS", s.url+"/run_python", nil, "Origin", "https://evil.test", "Access-Control-Request-Method", "POST").error(t); e.Code != api.Forbidden {
		t.Error(e)
	}
	// HTTP/1.0 without a Host, and a request line that names another host.
	f := func(send string) {
		t.Helper()
		c := dial(t, s)
		defer c.Close()
		if _, err := c.Write([]byte(send)); err != nil {
			t.Fatal(err)
		}
		var b [15]byte
		if n, _ := c.Read(b[:]); !strings.Contains(string(b[:n]), " 403") {
			t.Errorf("%q: %q", send, b[:n])
		}
	}
	f("GET /healthz HTTP/1.0\r\n\r\n")
	f("GET http://evil.test/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	f("GET http://localhost/healthz HTTP/1.1\r\nHost: evil.test\r\n\r\n")
}
