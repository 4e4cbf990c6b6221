package agents

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A granted tool reaches its host, and no other one; another tool reaches
// nothing. The error names the host and the flag that would allow it.
func TestRelyNetworkByGrantAlone(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) })
	granted, other := httptest.NewServer(handler), httptest.NewServer(handler)
	t.Cleanup(granted.Close)
	t.Cleanup(other.Close)
	at, elsewhere := strings.TrimPrefix(granted.URL, "http://"), strings.TrimPrefix(other.URL, "http://")
	args := append([]string{"local", "--tool-grant", "fetch=" + at, "--log-level", "info"}, local("fetch", "fetch", granted.URL, "fetch", other.URL, "other", granted.URL)[1:]...)
	got := run(t, command(t, plain(t), nil, args...))
	if got.code != 0 || !strings.HasPrefix(got.stdout, "hello from "+at+"\n") || strings.Count(got.stdout, "hello from") != 1 {
		t.Errorf("%+v", got)
	}
	if want := fmt.Sprintf("tool 'fetch' may not reach %s. Allow it with --tool-grant 'fetch=%s'", elsewhere, elsewhere); !strings.Contains(got.stdout, want) {
		t.Errorf("%q is not in %s", want, got.stdout)
	}
	for _, want := range []string{"egress allowed", "egress not allowed"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("%q is not in the log: %s", want, got.stderr)
		}
	}
}

// What cannot be granted is an error at start.
func TestGrantThatCannotBe(t *testing.T) {
	f := func(grant, says string) {
		t.Helper()
		got := run(t, command(t, plain(t), nil, append([]string{"local", "--tool-grant", grant}, local("exit", "0")[1:]...)...))
		if got.code != 2 || !strings.Contains(got.stderr, says) || got.stdout != "" {
			t.Errorf("%+v", got)
		}
	}
	f("fetch", "is not TOOL=HOST")
	f("fetch=https://api.example", "is not HOST or HOST:PORT")
	f("fetch=169.254.169.254", "where clouds serve credentials")
	f("fetch=[::ffff:169.254.169.254]:80", "where clouds serve credentials")
}
