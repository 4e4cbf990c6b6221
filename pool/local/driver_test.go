package local

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// systemPython is one that an unprivileged user can read, too.
const systemPython = "/usr/bin/python3"

func newDriver(t testing.TB, change func(*Options)) *Driver {
	t.Helper()
	python, err := LookPython(t.Context(), systemPython)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Python: python, MemoryBytes: wire.DefaultLimits().MemoryBytes, Logger: hclog.NewNullLogger()}
	if change != nil {
		change(&opts)
	}
	d, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func template() pool.Template {
	return pool.Template{Limits: wire.DefaultLimits(), DNS: "relay"}
}

// run runs code in a sandbox of its own.
func run(t testing.TB, d *Driver, code string) *wire.Result {
	t.Helper()
	return runFrom(t, d, template(), code)
}

func runFrom(t testing.TB, d *Driver, from pool.Template, code string) *wire.Result {
	t.Helper()
	ctx := context.Background()
	s, err := d.Start(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Destroy(ctx, s.ID()); err != nil {
			t.Error(err)
		}
	}()
	res, err := s.Run(ctx, &wire.Request{Code: code, TimeoutSeconds: 20}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestConformance(t *testing.T) {
	pooltest.Conformance(t, func(t *testing.T) pool.Driver { return newDriver(t, nil) }, template())
}

func TestConformanceOfFreshInterpreters(t *testing.T) {
	fresh := func(o *Options) { o.FreshInterpreter = true }
	pooltest.Conformance(t, func(t *testing.T) pool.Driver { return newDriver(t, fresh) }, template())
}

// A module that is not there is named, whatever the text around it.
func TestPreloadMissing(t *testing.T) {
	f := func(change func(*Options)) {
		t.Helper()
		missing := template()
		missing.Preload = []string{"json", "no_such_module.part"}
		_, err := newDriver(t, change).Start(t.Context(), missing)
		if e, ok := errors.AsType[*ImportError](err); !ok || e.Module != "no_such_module.part" || !strings.Contains(e.Cause, "ModuleNotFoundError") {
			t.Errorf("got %v", err)
		}
	}
	// A fork of a zygote.
	f(nil)
	// An interpreter of its own.
	f(func(o *Options) { o.FreshInterpreter = true })
}
