package main

import (
	"flag"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/cmd/toolflags"
)

// options are the sidecar's flags. The injector sets them by the environment.
type options struct {
	pool, poolName, poolCA, poolCAFile string
	tokenFile, podUID                  string
	listen, adminListen                string
	timeout, wait, drain               time.Duration
	requests                           int
	tools                              toolflags.Options
	requireHook                        bool
	logLevel                           string
	hurry                              <-chan struct{} // no flag: closed when drain is to end at once
}

func parse(args []string) (options, error) {
	var o options
	fs := o.flags()
	if err := flags.Parse(fs, args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%w: %q is not a flag of sidecar", flags.ErrUsage, fs.Arg(0))
	}
	return o, o.validate()
}

// flags are all that the sidecar can be told. The injector sets the variable of
// each, so that nothing else of a pod can.
func (o *options) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("sidecar", flag.ContinueOnError)
	fs.StringVar(&o.pool, "pool", "", "`address` of the pool, host:port; the host may stand for several replicas")
	fs.StringVar(&o.poolName, "pool-name", "", "`name` that the pool's certificate must be for (default the host of --pool)")
	fs.StringVar(&o.poolCA, "pool-ca", "", "the certificates, in `PEM`, that the pool's must be signed by")
	fs.StringVar(&o.poolCAFile, "pool-ca-file", "", "a `file` of them, read again when it changes; in place of --pool-ca")
	fs.StringVar(&o.tokenFile, "token-file", "/var/run/secrets/code-sandbox/token", "`file` of the token for the pool, read again when it changes")
	fs.StringVar(&o.podUID, "pod-uid", "", "the pod's `uid`, which chooses the replica that is asked first")
	fs.StringVar(&o.listen, "listen", "127.0.0.1:8900", "serve the API on this `address`")
	fs.StringVar(&o.adminListen, "admin-listen", ":8902", "serve metrics, health and readiness on this `address`")
	fs.DurationVar(&o.timeout, "timeout", 30*time.Second, "a run's timeout when it names none; at most the pool's longest")
	fs.DurationVar(&o.wait, "wait", time.Minute, "what a run may wait for the pool and a sandbox, on top of its timeout")
	fs.DurationVar(&o.drain, "drain", 25*time.Second, "what runs in flight get to end when the sidecar stops")
	fs.IntVar(&o.requests, "requests", 64, "runs in flight, at most")
	fs.BoolVar(&o.requireHook, "require-hook", false, "be ready only once a process has loaded the tool-call hook and registered a tool")
	o.tools.Flags(fs)
	fs.StringVar(&o.logLevel, "log-level", "warn", "log at this level: debug, info, warn or error")
	fs.Usage = func() {
		_, _ = fmt.Fprint(fs.Output(), "sidecar [flags]\n\n")
		fs.PrintDefaults()
	}
	return fs
}

func (o *options) validate() error {
	switch {
	case o.pool == "":
		return fmt.Errorf("%w: --pool must say where the pool is", flags.ErrUsage)
	case (o.poolCA == "") == (o.poolCAFile == ""):
		return fmt.Errorf("%w: --pool-ca or --pool-ca-file must say whom to believe, and not both", flags.ErrUsage)
	case !loopback(o.listen):
		return fmt.Errorf("%w: --listen is %q; it must be an address of this pod alone, such as 127.0.0.1:8900, since whoever reaches it acts for the agent", flags.ErrUsage, o.listen)
	case o.timeout <= 0:
		return fmt.Errorf("%w: --timeout is %s; it must be positive", flags.ErrUsage, o.timeout)
	case o.wait <= 0:
		return fmt.Errorf("%w: --wait is %s; it must be positive", flags.ErrUsage, o.wait)
	case o.drain < 0:
		return fmt.Errorf("%w: --drain is %s; it cannot be negative", flags.ErrUsage, o.drain)
	case o.requests < 1:
		return fmt.Errorf("%w: --requests is %d; it must be 1 or more", flags.ErrUsage, o.requests)
	case hclog.LevelFromString(o.logLevel) == hclog.NoLevel:
		return fmt.Errorf("%w: --log-level is %q; it can be debug, info, warn or error", flags.ErrUsage, o.logLevel)
	}
	policy := o.policy()
	if err := policy.Validate(); err != nil {
		return fmt.Errorf("%w: %w", flags.ErrUsage, err)
	}
	return nil
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, bad := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || bad == nil && ip.IsLoopback())
}
