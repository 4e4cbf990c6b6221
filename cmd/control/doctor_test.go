package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
)

func TestDoctorFlags(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	t.Setenv("CODE_SANDBOX_NODE_IP", "10.0.0.2")
	o, err := parseDoctor([]string{"--url", "http://localhost:1/", "--internet", "1.2.3.4:5,6.7.8.9:10"})
	if err != nil || o.places.APIServer != "[fd00::1]:443" || o.places.NodeIP != "10.0.0.2" || o.url != "http://localhost:1" || len(o.places.Internet) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"--url="}, {"--at-most=0s"}, {"more"}, {"--pods"}} {
		if _, err := parseDoctor(args); !errors.Is(err, flags.ErrUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// sandboxes answers doctor's programs; what they print is the test's.
func sandboxes(t *testing.T, threads string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var run struct {
			Code string
			Args []string
		}
		_ = json.NewDecoder(r.Body).Decode(&run)
		says := map[string]any{"outcome": "ok"}
		switch {
		case r.URL.Path == "/limits":
			_, _ = io.WriteString(w, `{"sandbox": {"isolation": "pod", "network": "none", "network_proof": "on", "memory_bytes": 1, "disk_bytes": 1}}`)
			return
		case strings.Contains(run.Code, "create_connection"):
			said := map[string]string{}
			for _, target := range run.Args {
				said[target] = "closed: timed out"
			}
			raw, _ := json.Marshal(map[string]any{"said": said})
			says["stdout"] = string(raw)
		case strings.Contains(run.Code, "uid_map"):
			says["stdout"] = `{"uid_map": [[0, 1, 2]], "names": {}}`
		case strings.Contains(run.Code, "threading"):
			says["stdout"] = threads
		default:
			says["outcome"] = "out_of_memory"
		}
		_ = json.NewEncoder(w).Encode(says)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The exit code says whether the promises are kept: an error is one.
func TestDoctor(t *testing.T) {
	examine := func(threads string, args ...string) (string, error) {
		o, err := parseDoctor(append([]string{"--url", sandboxes(t, threads), "--listen", "127.0.0.1:0", "--pod-ip", "127.0.0.1", "--internet", ""}, args...))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		err = runDoctor(t.Context(), o, &b)
		return b.String(), err
	}
	out, err := examine(`{"started": 9, "refused": "no"}`)
	if err != nil || !strings.Contains(out, "another pod ") || !strings.Contains(out, "does not reach 127.0.0.1:") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = examine(`{"started": 5000, "refused": ""}`)
	if !errors.Is(err, errUnprotected) || errors.Is(err, flags.ErrUsage) || !strings.Contains(err.Error(), "number of processes") ||
		!strings.Contains(out, "podPidsLimit is missing") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = examine(`{"started": 5000, "refused": ""}`, "--json")
	var told struct{ Broken []string }
	if !errors.Is(err, errUnprotected) || json.Unmarshal([]byte(out), &told) != nil || len(told.Broken) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	o, err := parseDoctor([]string{"--url", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--patience", "10ms"})
	if err != nil {
		t.Fatal(err)
	}
	if err := runDoctor(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "cannot reach the sidecar") {
		t.Errorf("without a service: %v", err)
	}
}
