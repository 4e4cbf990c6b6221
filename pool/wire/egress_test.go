package wire

import (
	"strings"
	"testing"
)

func TestParseHosts(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		got, err := ParseHosts(text)
		if strings.Join(got, " ") != want || (err == nil) != (want != "") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	// Names in one spelling, with both ports of the web when none is given.
	f("api.example", "api.example:80 api.example:443")
	f(" API.Example.:8443", "api.example:8443")
	f("localhost:1", "localhost:1")
	// Addresses in one spelling.
	f("10.0.0.5:5432", "10.0.0.5:5432")
	f("::ffff:10.0.0.5", "10.0.0.5:80 10.0.0.5:443")
	f("[2001:db8:0::1]:443", "[2001:db8::1]:443")
	f("2001:DB8::1", "[2001:db8::1]:80 [2001:db8::1]:443")
	// Other spellings of addresses, patterns, URLs and nothing at all.
	for _, bad := range []string{"", "2130706433", "0x7f000001:80", "127.1", "*.example", "https://api.example", "api.example/x", "a b", "api.example:0",
		"api.example:70000", "api.example:http", "fe80::1%eth0", "-x.example", strings.Repeat("a.", 200) + "example"} {
		f(bad, "")
	}
}

// Programs learn of the proxy in both spellings, and what they serve to
// themselves goes past it, but for a host that is granted.
func TestProxyEnvironment(t *testing.T) {
	f := func(e *Egress, proxy, past string) {
		t.Helper()
		env := e.Environment(3128)
		for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"} {
			if env[name] != proxy {
				t.Errorf("%s is %q", name, env[name])
			}
		}
		if env["no_proxy"] != past || env["NO_PROXY"] != past {
			t.Errorf("past the proxy goes %q", env["no_proxy"])
		}
	}
	f(nil, "", "")
	f(&Egress{Hosts: []string{"api.example:443"}}, "http://127.0.0.1:3128", "localhost,127.0.0.1,::1")
	f(&Egress{Hosts: []string{"127.0.0.1:8123"}}, "http://127.0.0.1:3128", "localhost,::1")
	f(&Egress{Hosts: []string{"[::1]:8123", "localhost:1"}}, "http://127.0.0.1:3128", "127.0.0.1")
}
