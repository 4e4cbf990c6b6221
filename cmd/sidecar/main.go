// Command sidecar serves run_python to the agent in its pod, and sends each run
// to the pool.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/code-sandbox/code-sandbox/cmd/internal/cli"
	"github.com/code-sandbox/code-sandbox/pool/api/client"
	"github.com/code-sandbox/code-sandbox/sidecar"
)

func main() {
	os.Exit(cli.Status("sidecar", run(cli.UntilSignal(), os.Args[1:])))
}

// options are the flags. The injector sets them by the environment.
type options struct {
	listen, adminListen string
	pool, poolCA        string
	poolCAFile          string
	tokenFile, podUID   string
	timeout, maxTimeout time.Duration
	drain               time.Duration
	logLevel            string
}

func parse(args []string) (o options, err error) {
	fs := flag.NewFlagSet("sidecar", flag.ContinueOnError)
	fs.StringVar(&o.listen, "listen", "127.0.0.1:8900", "serve the agent on this `address`")
	fs.StringVar(&o.adminListen, "admin-listen", ":8902", "serve metrics, health and readiness on this `address`")
	fs.StringVar(&o.pool, "pool", "", "the pool's `address`, host:port; required")
	fs.StringVar(&o.poolCA, "pool-ca", "", "what the pool's certificate is signed by: the `text` of PEM certificates")
	fs.StringVar(&o.poolCAFile, "pool-ca-file", "", "the same as a `file`, which is read again when it changes")
	fs.StringVar(&o.tokenFile, "token-file", "/var/run/secrets/kubernetes.io/serviceaccount/token", "the `file` with the token for the pool")
	fs.StringVar(&o.podUID, "pod-uid", "", "this pod's uid, which chooses the replica of the pool that is asked first")
	fs.DurationVar(&o.timeout, "timeout", 30*time.Second, "a run's timeout when it names none")
	fs.DurationVar(&o.maxTimeout, "max-timeout", 300*time.Second, "the longest timeout a run may ask for; the pool may allow less")
	fs.DurationVar(&o.drain, "drain", 25*time.Second, "what runs in flight get to end when the pod stops")
	fs.StringVar(&o.logLevel, "log-level", "info", "log at this level: debug, info, warn or error")
	fs.String("tools", "off", "tool calls: off; they are not there yet on Kubernetes")
	if err := cli.Parse(fs, args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%w: %q is not a flag of sidecar", cli.ErrUsage, fs.Arg(0))
	}
	return o, nil
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	log, err := cli.NewLogger("sidecar", o.logLevel)
	if err != nil {
		return err
	}
	to, err := client.New(client.Options{Address: o.pool, TokenFile: o.tokenFile, CA: []byte(o.poolCA), CAFile: o.poolCAFile, Self: o.podUID})
	if err != nil {
		return fmt.Errorf("%w: %w", cli.ErrUsage, err)
	}
	limits := sidecar.DefaultLimits()
	limits.Request.DefaultTimeout = sidecar.Seconds(o.timeout.Seconds())
	limits.Request.MaxTimeout = sidecar.Seconds(o.maxTimeout.Seconds())
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s, err := sidecar.New(sidecar.Options{
		Listen: o.listen, AdminListen: o.adminListen, Runner: to, Limits: limits, Ready: to.Ready, Version: cli.Version(),
		Drain: o.drain, Logger: log, Registry: registry,
	})
	if err != nil {
		return err
	}
	var keeping sync.WaitGroup
	defer keeping.Wait()
	beside, stop := context.WithCancel(ctx)
	defer stop()
	keeping.Go(func() { to.Keep(beside) })
	return s.Run(ctx)
}
