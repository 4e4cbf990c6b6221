package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Of an image's environment, harmless values are noted, of all else the name at
// most.
func TestNoteImage(t *testing.T) {
	f := func(entry, value string, named bool) {
		t.Helper()
		name, _, _ := strings.Cut(entry, "=")
		noted := noteImage([]string{entry})
		if got := noted.Values[name]; got != value || slices.Contains(noted.Names, name) != named {
			t.Errorf("%s: %+v", entry, noted)
		}
	}
	f("PATH=/venv/bin:/usr/bin", "/venv/bin:/usr/bin", false)
	f("LC_ALL=C.UTF-8", "C.UTF-8", false)
	f("OMP_NUM_THREADS=2", "2", false)
	f("OPENAI_API_KEY=x", "", true)
	f("DATABASE_URL=postgres://a:b@c/d", "", true)
	// A secret under a harmless name.
	for _, secret := range []string{"sk-proj-0123456789abcdef", "eyJhbGciOi.eyJzdWIi.x", "-----BEGIN KEY", "http://user:word@proxy", "AKIA0123456789ABCDEF"} {
		f("LOG_LEVEL="+secret, "", true)
	}
	f("TZ="+strings.Repeat("x", maxImageValue+1), "", true)
	// What is the container's own, ours, or would change the interpreter.
	for _, name := range []string{"HOME", "HOSTNAME", "KUBERNETES_PORT", "CODE_SANDBOX_RUNNER", "PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD", "=x"} {
		f(name+"=y", "", false)
	}
}

// However much an image has, what is handed over fits.
func TestNoteImageIsBounded(t *testing.T) {
	f := func(name, value string) {
		t.Helper()
		var environ []string
		for i := range 20000 {
			environ = append(environ, fmt.Sprintf(name, i)+"="+value)
		}
		noted := noteImage(environ)
		text, err := json.Marshal(noted)
		if err != nil || len(text) > maxConfig-maxConfig/8 || len(noted.Names)+len(noted.Values) == 0 {
			t.Errorf("%d bytes, %d names, %d values, %v", len(text), len(noted.Names), len(noted.Values), err)
		}
	}
	f("LC_%d", strings.Repeat("x", 1000))
	f("LC_%d", strings.Repeat("\x01", 1000))
	f("LC_%d", "")
	f("K%d", "y")
	f("K%0200d", "y")
}

// The agent's own word stands over its image's.
func TestWithImage(t *testing.T) {
	image := &wire.ImageEnv{Values: map[string]string{"LANG": "image", "TZ": "image", "LOG_LEVEL": "image"}, Names: []string{"KEY", "PORT", "TERM"}}
	f := func(boot string, env map[string]string, names ...string) {
		t.Helper()
		got, err := withImage(&wire.Copy{Env: map[string]string{"TERM": "agent"}, Boot: json.RawMessage(boot)}, image)
		if err != nil {
			t.Fatal(err)
		}
		var read struct {
			Cwd string
			Env struct {
				Names map[string]struct{ Shape string }
			}
		}
		if err := json.Unmarshal(got.Boot, &read); err != nil || !maps.Equal(got.Env, env) || !slices.Equal(slices.Sorted(maps.Keys(read.Env.Names)), names) {
			t.Errorf("%s: %v, %s, %v", boot, got.Env, got.Boot, err)
		}
		if strings.Contains(boot, "/app") && (read.Cwd != "/app" || read.Env.Names["PORT"].Shape != "int") {
			t.Errorf("lost in %s", got.Boot)
		}
	}
	f(`{}`, map[string]string{"LANG": "image", "TZ": "image", "LOG_LEVEL": "image", "TERM": "agent"}, "KEY", "PORT")
	f(`{"cwd":"/app","env":{"values":{"LANG":"agent"},"names":{"PORT":{"shape":"int"},"TZ":{"shape":"opaque"}}}}`,
		map[string]string{"LOG_LEVEL": "image", "TERM": "agent"}, "KEY", "PORT", "TZ")
	// A boot record that is none.
	for _, boot := range []string{`[]`, `{"env":[]}`, `{"env":{"names":"x"}}`, ``} {
		if _, err := withImage(&wire.Copy{Boot: json.RawMessage(boot)}, image); err == nil {
			t.Errorf("%q was taken", boot)
		}
	}
}
