package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/code-sandbox/code-sandbox/pool/egress"
	"github.com/code-sandbox/code-sandbox/pool/runner/client"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Conn is a connection to the runner of one sandbox (pool/runner/client).
type Conn interface {
	// Fresh asks for the proof that the sandbox is unused and closed.
	Fresh(ctx context.Context, p wire.Proof) (wire.Fresh, error)
	// Prepare makes a copy of a program ready, after Fresh, unless there are places
	// that its pod must cover first; errors are *api.Error.
	Prepare(ctx context.Context, c *wire.Copy) (wire.Covers, error)
	// Egress waits for the next connection of a copy's program to its proxy. It is
	// called beside Run.
	Egress(ctx context.Context) (net.Conn, error)
	// Run executes the one request; errors are *api.Error.
	Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error)
	// Broken is closed when the runner hangs up while it is idle.
	Broken() <-chan struct{}
	io.Closer
}

// Options configures a Driver. A field that is zero has the default named with
// it.
type Options struct {
	// Client is for pods, Bookkeeping (Client) for Leases: one must not wait for
	// the other. Required; see Clients.
	Client, Bookkeeping kubernetes.Interface
	// Pods is what sandboxes are.
	Pods PodConfig

	// Copies (none) knows the agents whose copies are made; without it there are
	// none.
	Copies *Copies
	// Egress (none) serves copies whose tools are granted hosts.
	Egress *egress.Proxy

	// NoNetworkProof takes a sandbox's network on trust. Otherwise a runner must
	// show that none of the canaries answers, within ProofWithin (10 s).
	NoNetworkProof bool
	ProofWithin    time.Duration
	// Canaries (none) are addresses, IP and port, that no sandbox may reach: the
	// API server's belongs there.
	Canaries []string
	// CanaryListen (none) is where the pool listens itself, CanaryAddress how
	// sandboxes would reach it: one more canary, known to be alive.
	CanaryListen, CanaryAddress string

	// Patience (15 s) is how long a pod may find no node before the start fails.
	Patience time.Duration
	// LookBound (2 s) is how long the status of a lost sandbox may take to say why.
	LookBound time.Duration
	// LeaseDuration (30 s) is how long a replica that is silent is taken for alive.
	LeaseDuration time.Duration

	// Dial (the usual one) makes the connections to runners, and Connect (that of
	// pool/runner/client) what is spoken over them.
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	Connect func(ctx context.Context, addr, secret string) (Conn, error)
	// Logger (none) and Registerer (a registry that nobody reads).
	Logger     hclog.Logger
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	o.Pods = o.Pods.withDefaults()
	orDefault(&o.ProofWithin, 10*time.Second)
	orDefault(&o.Patience, 15*time.Second)
	orDefault(&o.LookBound, 2*time.Second)
	orDefault(&o.LeaseDuration, 30*time.Second)
	if o.Bookkeeping == nil {
		o.Bookkeeping = o.Client
	}
	if o.Connect == nil {
		dialer := client.Dialer{Dial: o.Dial}
		o.Connect = func(ctx context.Context, addr, secret string) (Conn, error) {
			conn, err := dialer.Connect(ctx, addr, secret)
			if err != nil {
				return nil, err // not a nil *client.Conn in an interface
			}
			return conn, nil
		}
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Client == nil:
		return errors.New("the setting Client must be set")
	case o.ProofWithin < 0 || o.Patience < 0 || o.LookBound < 0:
		return errors.New("the settings ProofWithin, Patience and LookBound must be positive")
	case o.LeaseDuration < 3*time.Second:
		return errors.New("the setting LeaseDuration must be three seconds or more")
	case (o.CanaryListen == "") != (o.CanaryAddress == ""):
		return errors.New("the settings CanaryListen and CanaryAddress must be set both, or none")
	case !o.NoNetworkProof && len(o.canaries()) == 0:
		return errors.New("the setting Canaries must name an address that sandboxes may not reach, such as the API server's; NoNetworkProof does without")
	}
	for _, c := range o.canaries() {
		host, _, err := net.SplitHostPort(c)
		if err != nil || net.ParseIP(host) == nil {
			return fmt.Errorf("the canary %q is not an IP address with a port", c)
		}
	}
	return o.Pods.validate()
}

// canaries are all addresses that must not answer a sandbox.
func (o Options) canaries() []string {
	if o.CanaryAddress == "" {
		return o.Canaries
	}
	return append([]string{o.CanaryAddress}, o.Canaries...)
}

// Clients makes two clients, each with a budget of requests of its own: one for
// pods and one for bookkeeping (Leases, TokenReviews). The defaults of client-go,
// five requests a second, would make a burst of runs wait for seconds.
func Clients(config *rest.Config) (pods, bookkeeping kubernetes.Interface, err error) {
	made := [2]kubernetes.Interface{}
	for i, budget := range []struct {
		qps   float32
		burst int
	}{{100, 200}, {50, 100}} {
		c := rest.CopyConfig(config)
		c.QPS, c.Burst = budget.qps, budget.burst
		if made[i], err = kubernetes.NewForConfig(c); err != nil {
			return nil, nil, fmt.Errorf("cannot make a client of the API server: %w", err)
		}
	}
	return made[0], made[1], nil
}
