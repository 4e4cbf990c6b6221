package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
)

func TestParseInjector(t *testing.T) {
	needed := []string{"--namespace=cs", "--image=i", "--pool=p:8443", "--names=n", "--identity=a"}
	f := func(says string, more ...string) injectorOptions {
		t.Helper()
		o, err := parseInjector(append(needed[:len(needed):len(needed)], more...))
		if says == "" && err != nil || says != "" && (!errors.Is(err, flags.ErrUsage) || !strings.Contains(err.Error(), says)) {
			t.Errorf("the error is %v", err)
		}
		return o
	}
	// The least there can be.
	o := f("")
	if o.config.Deny || o.config.Requests.Memory().String() != "24Mi" || o.config.UID != 8900 {
		t.Errorf("the defaults are %+v", o.config)
	}
	// What the chart sets.
	o = f("", "--cannot-inject=deny", "--sidecar-memory-limit=1Gi", "--pull-secrets=a,b", "--hook=true")
	if !o.config.Deny || o.config.Limits.Memory().String() != "1Gi" || len(o.config.PullSecrets) != 2 || !o.config.Hook {
		t.Errorf("the options are %+v", o.config)
	}
	// What cannot be.
	f("--cannot-inject is", "--cannot-inject=maybe")
	f("--sidecar-cpu-limit is", "--sidecar-cpu-limit=much")
	f("no more than the second", "--sidecar-cpu-limit=1m")
	f("--audit-every is 0s", "--audit-every=0s")
	f("user id is 0", "--sidecar-uid=0")
	f("pull policy", "--pull-policy=Often")
	f("is not a flag", "word")
	f("the image is", "--image=")
	f("--names must be set", "--names=")
}

// An init container calls it: the folder is what goes on PYTHONPATH.
func TestLayHook(t *testing.T) {
	folder := t.TempDir()
	if err := command([]string{"hook", folder}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "sitecustomize.py")); err != nil {
		t.Error(err)
	}
	if err := command([]string{"hook"}); !errors.Is(err, flags.ErrUsage) {
		t.Errorf("the error is %v", err)
	}
}
