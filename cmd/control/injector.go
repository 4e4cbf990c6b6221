package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/code-sandbox/code-sandbox/cmd/control/pki"
	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/injector"
)

// injectorOptions are the flags of "control injector".
type injectorOptions struct {
	listen, adminListen string
	config              injector.Config
	pullPolicy          string
	pullSecrets         flags.List
	cannotInject        string
	cpu, memory         struct{ request, limit string }
	webhook, identity   string
	names               flags.List
	tls                 pki.FilesOptions
	caSecret            string
	certificateLife     time.Duration
	auditEvery          time.Duration
	logLevel            string
}

func parseInjector(args []string) (injectorOptions, error) {
	o := injectorOptions{config: injector.DefaultConfig()}
	fs := flag.NewFlagSet("control injector", flag.ContinueOnError)
	o.serviceFlags(fs)
	o.sidecarFlags(fs)
	if err := flags.Parse(fs, args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%w: %q is not a flag of control injector", flags.ErrUsage, fs.Arg(0))
	}
	return o, o.complete()
}

func (o *injectorOptions) serviceFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.listen, "listen", ":8443", "serve the API server on this `address`, over TLS")
	fs.StringVar(&o.adminListen, "admin-listen", ":8902", "serve metrics, health and readiness on this `address`")
	fs.StringVar(&o.config.Namespace, "namespace", "", "the `namespace` that the injector and the pool run in; required")
	fs.StringVar(&o.config.RunsNamespace, "runs-namespace", "code-sandbox-runs", "the `namespace` that sandboxes live in")
	fs.StringVar(&o.webhook, "webhook", "code-sandbox", "the MutatingWebhookConfiguration, a `name`, whose caBundle the injector writes")
	fs.StringVar(&o.identity, "identity", "", "the `name` of this replica among the others: its pod's; required")
	fs.Var(&o.names, "names", "DNS `names` that the API server knows the injector by, comma-separated; required")
	fs.StringVar(&o.tls.Cert, "tls-cert", "", "serve with the certificate in this `file`, which somebody else renews; with --tls-key and --tls-ca")
	fs.StringVar(&o.tls.Key, "tls-key", "", "the key of --tls-cert, a `file`")
	fs.StringVar(&o.tls.CA, "tls-ca", "", "who signed --tls-cert and the pool's certificate, a `file`: the API server and sidecars are told to believe them")
	fs.StringVar(&o.caSecret, "ca-secret", "code-sandbox-ca", "without --tls-cert: the `Secret` that keeps the authority, which the pool shares")
	fs.DurationVar(&o.certificateLife, "certificate-life", 24*time.Hour, "how long a certificate is good that the injector makes for itself; it is renewed before, without a restart")
	fs.StringVar(&o.cannotInject, "cannot-inject", "skip", "what becomes of a pod that cannot have a sidecar: skip (let in, with a warning) or deny")
	fs.DurationVar(&o.auditEvery, "audit-every", 5*time.Minute, "how often pods without a sidecar are looked for")
	fs.StringVar(&o.logLevel, "log-level", "info", "log at this level: debug, info, warn or error")
}

func (o *injectorOptions) sidecarFlags(fs *flag.FlagSet) {
	c := &o.config
	fs.StringVar(&c.Image, "image", "", "the product's `image`, which the sidecar is started from; required")
	fs.StringVar(&o.pullPolicy, "pull-policy", string(c.PullPolicy), "when it is pulled: Always, IfNotPresent or Never")
	fs.Var(&o.pullSecrets, "pull-secrets", "`Secrets` to pull it with, which every enrolled namespace has, comma-separated")
	fs.StringVar(&c.Pool, "pool", "", "the pool's `address`, host:port; required")
	fs.StringVar(&c.Audience, "audience", c.Audience, "what the sidecar's token is for; the pool asks for it")
	fs.BoolVar(&c.Hook, "hook", false, "add the tool-call hook to the agents' containers")
	fs.Func("policy", "what holds where no annotation says otherwise, a JSON `object` of annotations' keys without their prefix", func(text string) error {
		said := injector.Policy{}
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			return err
		}
		maps.Copy(c.Defaults, said)
		return nil
	})
	fs.Int64Var(&c.UID, "sidecar-uid", c.UID, "the sidecar's user `id`; no agent should have the same")
	for _, q := range []struct {
		to         *string
		name, help string
		value      resource.Quantity
	}{
		{&o.cpu.request, "sidecar-cpu-request", "what a sidecar asks for", c.Requests["cpu"]},
		{&o.cpu.limit, "sidecar-cpu-limit", "the most a sidecar may use", c.Limits["cpu"]},
		{&o.memory.request, "sidecar-memory-request", "what a sidecar asks for", c.Requests["memory"]},
		{&o.memory.limit, "sidecar-memory-limit", "the most a sidecar may use", c.Limits["memory"]},
	} {
		fs.StringVar(q.to, q.name, q.value.String(), q.help)
	}
}

// complete checks the options and puts them together.
func (o *injectorOptions) complete() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", flags.ErrUsage, fmt.Errorf(format, args...))
	}
	c := &o.config
	c.PullPolicy, c.PullSecrets, c.Deny = corev1.PullPolicy(o.pullPolicy), o.pullSecrets, o.cannotInject == "deny"
	c.Requests, c.Limits = corev1.ResourceList{}, corev1.ResourceList{}
	for _, q := range []struct {
		to         corev1.ResourceList
		key        corev1.ResourceName
		flag, text string
	}{
		{c.Requests, "cpu", "sidecar-cpu-request", o.cpu.request}, {c.Limits, "cpu", "sidecar-cpu-limit", o.cpu.limit},
		{c.Requests, "memory", "sidecar-memory-request", o.memory.request}, {c.Limits, "memory", "sidecar-memory-limit", o.memory.limit},
	} {
		n, err := resource.ParseQuantity(q.text)
		if err != nil {
			return wrong("--%s is %q: %w", q.flag, q.text, err)
		}
		q.to[q.key] = n
	}
	switch {
	case o.cannotInject != "skip" && o.cannotInject != "deny":
		return wrong("--cannot-inject is %q; it can be skip or deny", o.cannotInject)
	case tlsPartly(o.tls):
		return wrong("--tls-cert, --tls-key and --tls-ca must be set all, or none")
	case len(o.names) == 0:
		return wrong("--names must be set: what the certificate is for")
	case o.identity == "":
		return wrong("--identity must be set: the pod's name")
	case o.certificateLife < minCertificateLife:
		return wrong("--certificate-life is %s; it must be %s or more", o.certificateLife, minCertificateLife)
	case o.auditEvery <= 0:
		return wrong("--audit-every is %s; it must be above 0", o.auditEvery)
	}
	if err := c.Validate(); err != nil {
		return wrong("%w", err)
	}
	return nil
}

// runInjector serves until ctx ends.
func runInjector(ctx context.Context, o injectorOptions) error {
	log, err := newLogger(o.logLevel)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	config, err := clusterConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100
	// What client-go says of itself is a line of JSON too.
	klog.SetSlogLogger(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make a client of the API server: %w", err)
	}
	starting, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	own, renew, err := o.certificates(starting, kube, log.Named("pki"))
	if err != nil {
		return err
	}
	i, err := injector.New(injector.Options{
		Config: o.config, Kube: kube, Listen: o.listen,
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: own.GetCertificate}, CA: own.Bundle, Refresh: own.Refresh,
		Webhook: o.webhook, Identity: o.identity, AuditEvery: o.auditEvery, Logger: log.Named("injector"), Registry: registry,
	})
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", o.adminListen)
	if err != nil {
		return fmt.Errorf("cannot listen on --admin-listen=%q: %w", o.adminListen, err)
	}
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	beside.Go(func() { renew(base) })
	beside.Go(func() { serveAdmin(base, admin, i.Ready, registry, log) })
	return i.Run(ctx)
}

// serveAdmin serves metrics, health and readiness until ctx ends.
func serveAdmin(ctx context.Context, l net.Listener, ready func() error, registry *prometheus.Registry, log hclog.Logger) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Error("cannot serve the admin port", "error", err)
	}
}
