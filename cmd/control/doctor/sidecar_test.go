package doctor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// What the sidecar says arrives, its refusals too.
func TestSidecar(t *testing.T) {
	answer, status := "", 200
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.Path + " " + string(body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	s := Sidecar{URL: server.URL}
	answer = `{"version": "1", "sandbox": {"isolation": "pod", "network": "dns", "network_proof": "off", "memory_bytes": 7, "disk_bytes": 8, "processes": 9}}`
	l, err := s.Limits(t.Context())
	if err != nil || l != (Limits{"pod", "dns", "off", 7, 8, 9}) || asked != "GET /limits " {
		t.Errorf("%+v, %v; it was asked %q", l, err, asked)
	}
	answer = `{"stdout": "{}", "outcome": "out_of_memory"}`
	res, err := s.Run(t.Context(), "print(1)", []string{"a"})
	if err != nil || res.Outcome != wire.OutOfMemory || asked != `POST /run_python {"code":"print(1)","timeout_seconds":30,"args":["a"]}` {
		t.Errorf("%+v, %v; it was asked %q", res, err, asked)
	}
	f := func(code int, text, says string) {
		t.Helper()
		status, answer = code, text
		if _, err := s.Run(t.Context(), "", nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%d %s: %v", code, text, err)
		}
	}
	f(503, `{"error": {"code": "no_capacity", "message": "No sandbox.", "retryable": true, "executed": "no"}}`, "no_capacity: No sandbox.")
	f(404, "<html>", "no sidecar: 404")
	f(200, "<html>", "cannot understand")
	server.Close()
	f(200, "", "cannot reach the sidecar")
}
