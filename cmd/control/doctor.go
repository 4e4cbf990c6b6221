package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/code-sandbox/code-sandbox/cmd/control/doctor"
	"github.com/code-sandbox/code-sandbox/cmd/flags"
)

// doctorOptions are the flags of "control doctor".
type doctorOptions struct {
	url              string
	listen, podIP    string
	places           doctor.Places
	internet         flags.List
	lookup           string
	patience, atMost time.Duration
	json             bool
}

func parseDoctor(args []string) (doctorOptions, error) {
	o := doctorOptions{internet: flags.List{"1.1.1.1:443"}}
	fs := flag.NewFlagSet("control doctor", flag.ContinueOnError)
	fs.StringVar(&o.url, "url", "http://localhost:8900", "the `URL` of the sidecar to ask for sandboxes")
	fs.StringVar(&o.places.APIServer, "api-server", inCluster(), "`HOST:PORT` of the API server; in a pod it is known")
	fs.StringVar(&o.places.NodeIP, "node-ip", "", "`address` of a node, whose kubelet no sandbox may reach")
	fs.StringVar(&o.podIP, "pod-ip", "", "this pod's `address`, at which no sandbox may reach --listen; by default it is looked for")
	fs.StringVar(&o.listen, "listen", ":8904", "listen on this `address`, to be a pod that no sandbox may reach")
	fs.StringVar(&o.places.Service, "service", "", "`HOST:PORT` of a Service in the agents' namespace that leads to --listen or to another pod")
	fs.StringVar(&o.places.Pool, "pool", "", "the pool's Service, such as code-sandbox-pool.code-sandbox.svc")
	fs.Var(&o.internet, "internet", "`addresses` of the internet, HOST:PORT, comma-separated")
	fs.StringVar(&o.lookup, "lookup", "", "a `name` that sandboxes can look up; by default the API server's")
	fs.DurationVar(&o.patience, "patience", time.Minute, "how long the sidecar may take to know its pool")
	fs.DurationVar(&o.atMost, "at-most", 5*time.Minute, "how long everything may take")
	fs.BoolVar(&o.json, "json", false, "write one JSON object, in one line, in place of a table")
	if err := flags.Parse(fs, args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("%w: %q is not a flag of control doctor", flags.ErrUsage, fs.Arg(0))
	case o.url == "" || o.patience <= 0 || o.atMost <= 0:
		return o, fmt.Errorf("%w: --url, --patience and --at-most must be set", flags.ErrUsage)
	}
	o.url, o.places.Internet = strings.TrimSuffix(o.url, "/"), o.internet
	return o, nil
}

// inCluster is how pods of a cluster reach its API server.
func inCluster() string {
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" {
		return net.JoinHostPort(host, cmp.Or(os.Getenv("KUBERNETES_SERVICE_PORT"), "443"))
	}
	return ""
}

// errUnprotected marks promises that are not kept.
var errUnprotected = errors.New("not protected")

// runDoctor tries everything, prints what came of it, and is an error when a
// promise is not kept.
func runDoctor(ctx context.Context, o doctorOptions, to io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, o.atMost)
	defer cancel()
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("cannot listen on --listen=%q: %w", o.listen, err)
	}
	defer func() { _ = l.Close() }()
	go accept(l)
	if ip := cmp.Or(o.podIP, ownIP(o.places.APIServer)); ip != "" {
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return fmt.Errorf("cannot tell the port of --listen: %w", err)
		}
		o.places.Pod = net.JoinHostPort(ip, port)
	}
	report, err := doctor.Examine(ctx, o.examination(ctx))
	if err != nil {
		return fmt.Errorf("cannot examine anything: %w", err)
	}
	write := report.Table
	if o.json {
		write = report.JSON
	}
	if err := write(to); err != nil {
		return fmt.Errorf("cannot write what was found: %w", err)
	}
	if broken := report.Broken(); len(broken) > 0 {
		return fmt.Errorf("%w: %s", errUnprotected, strings.Join(broken, ", "))
	}
	return nil
}

// examination looks for what is not given.
func (o doctorOptions) examination(ctx context.Context) doctor.Options {
	var resolv doctor.Resolv
	if raw, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		resolv = doctor.ReadResolv(string(raw))
	}
	lookup := cmp.Or(o.lookup, resolv.ClusterName())
	if _, err := net.DefaultResolver.LookupHost(ctx, lookup); err != nil {
		lookup = ""
	}
	dialer := net.Dialer{}
	return doctor.Options{
		Service: doctor.Sidecar{URL: o.url}, Targets: o.places.Targets(ctx, net.DefaultResolver.LookupHost),
		Lookup: lookup, Resolvers: resolv.Servers, Patience: o.patience,
		Dial: func(ctx context.Context, address string) error {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err == nil {
				conn.Close()
			}
			return err
		},
	}
}

// accept answers whoever comes, until the listener is closed.
func accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Close()
	}
}

// ownIP is the address that this pod has towards the API server; empty outside
// of a cluster, where no sandbox would know it. Nothing is sent.
func ownIP(apiServer string) string {
	if apiServer == "" {
		return ""
	}
	conn, err := net.Dial("udp", apiServer)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if a, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		return a.IP.String()
	}
	return ""
}
