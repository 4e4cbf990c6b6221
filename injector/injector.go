// Package injector gives agent pods their sidecar: a mutating admission webhook
// for namespaces that are enrolled, and an audit of what it was not asked about.
// What becomes of a pod is decided by pure functions (Decide, Resolve, Mutate).
package injector

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// Options are what an Injector is made of. All fields must be set.
type Options struct {
	Config Config // CA is filled in at each admission
	Kube   kubernetes.Interface
	Listen string      // address of the webhook
	TLS    *tls.Config // serves the certificate that CA has signed
	CA     func() []byte
	// Refresh reads anew what CA gives; replicas share it.
	Refresh  func(context.Context) error
	Webhook  string // name of the MutatingWebhookConfiguration
	Identity string // of this replica: its pod's name
	// AuditEvery is the time between two audits.
	AuditEvery time.Duration
	Logger     hclog.Logger
	Registry   prometheus.Registerer
}

// Injector serves the webhook.
type Injector struct {
	o        Options
	listener net.Listener
	metrics  *metrics
	bundle   *bundle
	synced   atomic.Bool
	stopping atomic.Bool
}

// Stopping takes this long at most: the API server waits for an answer no
// longer either.
const stopTimeout = 10 * time.Second

// leaveAfter is how long the webhook serves on after it is told to stop, until
// the API server has heard that it is no longer there.
const leaveAfter = 3 * time.Second

// New binds the address and checks what it is given.
func New(o Options) (*Injector, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, fmt.Errorf("cannot make an injector: %w", err)
	}
	if o.AuditEvery <= 0 || o.Webhook == "" || o.Identity == "" {
		return nil, errors.New("cannot make an injector: it needs a time between audits, the webhook's name and its own")
	}
	m, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %q: %w", o.Listen, err)
	}
	i := &Injector{o: o, listener: l, metrics: m}
	m.auditEvery.Set(o.AuditEvery.Seconds())
	i.bundle = newBundle(o, m)
	return i, nil
}

// Addr is where the webhook is served.
func (i *Injector) Addr() net.Addr { return i.listener.Addr() }

// Ready says why no pod should be sent here, if so.
func (i *Injector) Ready() error {
	switch {
	case i.stopping.Load():
		return errors.New("the injector is stopping")
	case !i.synced.Load():
		return errors.New("the namespaces are not known yet")
	case !i.bundle.written.Load():
		return errors.New("the API server does not know our certificate authority yet")
	}
	return nil
}

// Run serves until ctx ends, then answers what it has begun to.
func (i *Injector) Run(ctx context.Context) error {
	defer func() { _ = i.listener.Close() }()
	// What runs beside outlives the webhook: an answer may need it.
	beside, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	broadcaster := record.NewBroadcaster(record.WithContext(beside))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: i.o.Kube.CoreV1().Events("")})
	tell := events{broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "code-sandbox-injector"})}

	known := i.watchNamespaces(beside, &wg)
	wg.Go(func() { i.bundle.run(beside) })
	a := &audit{kube: i.o.Kube, every: i.o.AuditEvery, config: i.config, metrics: i.metrics, events: tell, log: i.o.Logger.Named("audit")}
	wg.Go(func() { i.lead(beside, a.run) })

	mux := http.NewServeMux()
	mux.Handle("/mutate", &handler{config: i.config, namespace: known.get, refresh: sharedRefresh(i.o.Refresh), metrics: i.metrics, events: tell,
		log: i.o.Logger, gate: newGate()})
	server := &http.Server{
		Handler: mux, TLSConfig: i.o.TLS, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 20 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxReviews},
		ErrorLog: i.o.Logger.Named("http").StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(newNeighbours(i.listener), "", "") }()
	i.o.Logger.Info("serving", "address", i.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve the webhook: %w", err)
	case <-ctx.Done():
	}
	return i.stop(server)
}

// stop leaves in order: not ready, then closed.
func (i *Injector) stop(server *http.Server) error {
	i.stopping.Store(true)
	i.o.Logger.Info("stopping")
	time.Sleep(leaveAfter)
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("cannot answer all admissions: %w", err), server.Close())
	}
	return nil
}

// config is the configuration with the authority of this moment.
func (i *Injector) config() (Config, error) {
	c := i.o.Config
	if c.CA = string(i.o.CA()); c.CA == "" {
		return c, errors.New("there is no certificate authority yet")
	}
	return c, nil
}
