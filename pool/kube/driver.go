package kube

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/code-sandbox/code-sandbox/pool"
)

// Driver implements pool.Driver with pods. Make one with New and run it with
// Run, which must outlive the pool that uses it.
type Driver struct {
	opts     Options
	log      hclog.Logger
	metrics  *metrics
	replica  string // fresh in each process: nothing of an earlier life is ours
	informer cache.SharedIndexInformer
	copies   copyWatches
	forms    *forms
	roster   *roster
	notices  *notices
	canary   *canary // nil without
	ready    chan struct{}
	// stop is closed when Run ends; work counts what Run waits for.
	stop chan struct{}
	work sync.WaitGroup
}

var _ pool.Driver = (*Driver)(nil)

// New makes a driver. An error names the setting that is wrong, or the address
// that cannot be listened on.
func New(opts Options) (*Driver, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("cannot make a driver for pods: %w", err)
	}
	d := &Driver{
		opts: opts, log: opts.Logger, replica: randomName("r-", 12),
		roster: newRoster(), notices: newNotices(), ready: make(chan struct{}), stop: make(chan struct{}),
	}
	var err error
	if d.forms, err = newForms(opts.Pods, d.replica); err != nil {
		return nil, fmt.Errorf("cannot make a driver for pods: %w", err)
	}
	if d.metrics, err = newMetrics(opts.Registerer); err != nil {
		return nil, fmt.Errorf("cannot make a driver for pods: cannot register metrics: %w", err)
	}
	if opts.CanaryListen != "" {
		if d.canary, err = listenCanary(opts.CanaryListen, opts.CanaryAddress); err != nil {
			return nil, fmt.Errorf("cannot make a driver for pods: %w", err)
		}
	}
	if d.informer, err = d.watchPods(opts.Pods.Namespace); err != nil {
		return nil, fmt.Errorf("cannot make a driver for pods: %w", err)
	}
	return d, nil
}

// watchPods makes a watch of the sandboxes in a namespace, of all replicas: the
// reaper needs those of the dead.
func (d *Driver) watchPods(namespace string) (cache.SharedIndexInformer, error) {
	informer := coreinformers.NewFilteredPodInformer(d.opts.Client, namespace, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = LabelKind + "," + LabelReplica })
	_, err := informer.AddEventHandler(d.handler())
	return informer, errors.Join(err, informer.SetTransform(withoutManagedFields), tellWatchErrors(informer, d.log))
}

// randomName is a name of n characters after the prefix that was never used:
// five bits of chance each.
func randomName(prefix string, n int) string {
	return prefix + strings.ToLower(rand.Text()[:n])
}

func withoutManagedFields(object any) (any, error) {
	if p, ok := object.(*corev1.Pod); ok {
		p.ManagedFields = nil
	}
	return object, nil
}

// tellWatchErrors sends what a watch suffers to our log. It goes on by itself.
func tellWatchErrors(informer cache.SharedIndexInformer, log hclog.Logger) error {
	return informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil {
			log.Warn("cannot watch for a moment", "error", err)
		}
	})
}

// Replica is the name of this process among the replicas of the pool.
func (d *Driver) Replica() string { return d.replica }

// handler passes on what happens to this replica's own pods.
func (d *Driver) handler() cache.ResourceEventHandler {
	own := func(object any) (*corev1.Pod, bool) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		p, ok := object.(*corev1.Pod)
		return p, ok && p.Labels[LabelReplica] == d.replica
	}
	seen := func(object any) {
		if p, ok := own(object); ok {
			d.roster.seen(p)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			if p, ok := own(object); ok {
				d.roster.deleted(p)
			}
		},
	}
}

// Run follows the cluster until ctx ends: it watches the pods, renews this
// replica's Lease, and destroys what replicas that died have left. Starts wait
// until it has begun. It must end after the pool: its last sandboxes can be
// destroyed only while it runs.
func (d *Driver) Run(ctx context.Context) error {
	defer d.work.Wait()
	defer close(d.stop)
	if d.canary != nil {
		d.work.Go(func() { d.canary.serve(ctx) })
	}
	d.work.Go(func() { d.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), d.informer.HasSynced) {
		return fmt.Errorf("cannot watch pods in the namespace %q: %w", d.opts.Pods.Namespace, context.Cause(ctx))
	}
	r := newReplicas(d)
	if err := r.join(ctx); err != nil {
		return err
	}
	d.log.Info("replica joined", "replica", d.replica, "namespace", d.opts.Pods.Namespace)
	close(d.ready)
	r.keep(ctx)
	d.roster.close()
	return nil
}

// Watch implements pool.Driver: it reports this replica's own pods, never those
// of another.
func (d *Driver) Watch(ctx context.Context) (<-chan pool.Event, error) {
	if err := d.waitReady(ctx); err != nil {
		return nil, err
	}
	return d.roster.watch(ctx)
}

func (d *Driver) waitReady(ctx context.Context) error {
	select {
	case <-d.ready:
		return context.Cause(ctx)
	case <-d.stop:
		return errStopped
	case <-ctx.Done():
		return fmt.Errorf("cannot use the cluster: the API server was not reached yet: %w", context.Cause(ctx))
	}
}
