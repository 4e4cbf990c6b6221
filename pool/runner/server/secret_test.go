package server

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// What the hook must make of values, the runner makes of an image's.
func TestSecretLike(t *testing.T) {
	raw, err := os.ReadFile("../../../toolproxy/hook/testdata/values.json")
	if err != nil {
		t.Fatal(err)
	}
	var values struct{ Secret, Harmless []string }
	if err := json.Unmarshal(raw, &values); err != nil || len(values.Secret) < 40 || len(values.Harmless) < 30 {
		t.Fatalf("%d and %d values: %v", len(values.Secret), len(values.Harmless), err)
	}
	f := func(value string, secret bool) {
		t.Helper()
		noted := noteImage([]string{"LOG_LEVEL=" + value})
		if _, crosses := noted.Values["LOG_LEVEL"]; crosses == secret || slices.Contains(noted.Names, "LOG_LEVEL") != secret {
			t.Errorf("%q: %+v", value, noted)
		}
	}
	for _, value := range values.Secret {
		f(value, true)
	}
	for _, value := range values.Harmless {
		f(value, false)
	}
}

// Paths are named by hashes; a key among them is a key.
func TestSecretLikePaths(t *testing.T) {
	f := func(entry string, secret bool) {
		t.Helper()
		name, value, _ := strings.Cut(entry, "=")
		if got := noteImage([]string{entry}).Values[name]; (got != value) != secret {
			t.Errorf("%s: %q crosses", entry, got)
		}
	}
	f("PATH=/nix/store/0c9qv3w1zr7xt5nbpqy8sdf2ghj4kmn6-python3-3.12.7/bin:/usr/bin", false)
	f("SSL_CERT_FILE=/nix/store/0c9qv3w1zr7xt5nbpqy8sdf2ghj4kmn6-nss-cacert/ca.crt", false)
	f("LOG_LEVEL=/nix/store/0c9qv3w1zr7xt5nbpqy8sdf2ghj4kmn6-python3-3.12.7/bin", true)
	f("PATH=/usr/bin:sk-proj-0123456789abcdef", true)
}

// The variables of the official Python image: those that programs ask for cross,
// and of the others, public as they are, the names.
func TestPythonImage(t *testing.T) {
	noted := noteImage([]string{
		"PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1",
		"GPG_KEY=7169605F62C751356D054A26A821E680E5FA6305", "PYTHON_VERSION=3.12.7", "PYTHON_SHA256=24887b92e2afd4a2ac602419ad4b596372f67ac9b077190f459aba390faf5550",
	})
	if len(noted.Values) != 4 || noted.Values["LANG"] != "C.UTF-8" || !slices.Equal(noted.Names, []string{"GPG_KEY", "PYTHON_VERSION", "PYTHON_SHA256"}) {
		t.Errorf("%+v", noted)
	}
}
