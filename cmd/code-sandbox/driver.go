package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/egress"
	"github.com/code-sandbox/code-sandbox/pool/local"
)

// driver is what local mode needs of one beside sandboxes.
type driver interface {
	pool.Driver
	Isolation() string
	MemoryBy() string
	CPUBy() string
	Close() error
}

// bareWarning is printed at every start without isolation.
const bareWarning = `
WARNING: --isolation=none. NOTHING stands between a program and this machine. Every program runs with all the rights of
your user: it can read, change and delete your files, use your network and your credentials, see and end your processes,
write into the sandboxes of other programs, and leave things behind. Only timeouts, the caps on output, files and memory,
and a fresh interpreter per run remain. Run nothing here that you would not run by hand; a model's code is not that.

`

func newDriver(o localOptions, python local.Python, hook string, log hclog.Logger, registry prometheus.Registerer) (driver, error) {
	if o.isolation == local.BareIsolation {
		fmt.Fprint(os.Stderr, bareWarning)
		return local.NewBare(local.BareOptions{Python: python, MemoryBytes: int64(o.memory), Logger: log})
	}
	if err := visible(python); err != nil {
		return nil, err
	}
	proxy, err := egress.New(egress.Options{Logger: log.Named("egress"), Registry: registry})
	if err != nil {
		return nil, err
	}
	d, err := local.New(local.Options{
		Python: python, MemoryBytes: int64(o.memory), FreshInterpreter: o.freshInterpreter, Hook: hook, Egress: proxy, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "code_sandbox_dns_lookups_total", Help: "DNS questions that programs asked.",
	}, func() float64 { return float64(d.Lookups()) }))
	return d, nil
}

// visible refuses an interpreter that sandboxes would not see, or whose packages
// they would not.
func visible(python local.Python) error {
	for _, p := range append([]string{python.Executable}, python.Path...) {
		for _, own := range []string{"/tmp", "/var/tmp", "/dev", "/work", "/proc"} {
			if strings.HasPrefix(p, own+"/") {
				return fmt.Errorf("cannot use the Python interpreter %q: %q is in %s, where every sandbox has files of its own only; "+
					"move the environment elsewhere, or name another with --python", python.Executable, p, own)
			}
		}
	}
	return nil
}

// tryOne starts one sandbox before anything is served: what is wrong with
// Python, a module or this machine is an error at start. Isolation is tested in
// it, where there is any.
func (s *service) tryOne(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	if d, ok := s.driver.(*local.Driver); ok {
		return s.explain(d.SelfTest(ctx, s.template))
	}
	sandbox, err := s.driver.Start(ctx, s.template)
	if err != nil {
		return s.explain(err)
	}
	return s.driver.Destroy(context.WithoutCancel(ctx), sandbox.ID())
}

// explain says what to do about a module that cannot be preloaded.
func (s *service) explain(err error) error {
	if e, ok := errors.AsType[*local.ImportError](err); ok {
		return fmt.Errorf("cannot preload %q in %s: %s. Install it there, name another interpreter with --python "+
			"(a virtual environment's is fine), or leave it out of --preload", e.Module, s.python.Executable, e.Cause)
	}
	return err
}
