package kube

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/code-sandbox/code-sandbox/pool"
)

// directory knows the pods of the enrolled namespaces. It watches each of them
// apart: the pool has rights in them alone.
type directory struct {
	client kubernetes.Interface
	log    hclog.Logger
	work   sync.WaitGroup
	// enrols is called for each enrolled namespace, until ctx ends; ends for each
	// pod of one that has ended or gone. Both may be nil.
	enrols func(ctx context.Context, namespace string)
	ends   func(pool.Caller)

	mu       sync.Mutex
	enrolled map[string]context.CancelFunc // by namespace
	pods     map[types.NamespacedName]*resident
	changed  chan struct{} // closed and replaced at every change
}

// resident is a pod of an enrolled namespace.
type resident struct {
	uid     types.UID
	account string
	pod     *corev1.Pod // as far as agentOnly keeps it
	leaving bool        // it is being deleted, or has ended
	// own and strangers bound how often tokens that name this pod are verified,
	// when they come from its own address and from others.
	own, strangers *rate.Limiter
}

// at says whether an address is the pod's.
func (r *resident) at(from netip.Addr) bool {
	return slices.ContainsFunc(r.pod.Status.PodIPs, func(ip corev1.PodIP) bool {
		own, err := netip.ParseAddr(ip.IP)
		return err == nil && own.Unmap() == from
	})
}

func newDirectory(client kubernetes.Interface, log hclog.Logger) *directory {
	return &directory{
		client: client, log: log, enrolled: map[string]context.CancelFunc{},
		pods: map[types.NamespacedName]*resident{}, changed: make(chan struct{}),
	}
}

// run watches until ctx ends; synced is called when the namespaces are known.
func (d *directory) run(ctx context.Context, synced func()) error {
	defer d.work.Wait()
	namespaces := coreinformers.NewFilteredNamespaceInformer(d.client, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = LabelEnabled + "=true" })
	_, err := namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if ns, ok := object.(*corev1.Namespace); ok {
				d.enrol(ctx, ns.Name)
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if ns, ok := object.(*corev1.Namespace); ok {
				d.leave(ns.Name)
			}
		},
	})
	if err = errors.Join(err, tellWatchErrors(namespaces, d.log)); err != nil {
		return err
	}
	d.work.Go(func() { namespaces.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), namespaces.HasSynced) {
		synced()
	}
	<-ctx.Done()
	return nil
}

// enrol begins to watch the pods of a namespace.
func (d *directory) enrol(ctx context.Context, namespace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.enrolled[namespace] != nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	pods := coreinformers.NewPodInformer(d.client, namespace, 0, cache.Indexers{})
	seen := func(object any) {
		if p, ok := object.(*corev1.Pod); ok {
			d.seen(p)
		}
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if p, ok := object.(*corev1.Pod); ok {
				d.gone(p)
			}
		},
	})
	if err = errors.Join(err, pods.SetTransform(agentOnly), tellWatchErrors(pods, d.log.With("namespace", namespace))); err != nil {
		cancel()
		d.log.Error("cannot watch the pods of an enrolled namespace", "namespace", namespace, "error", err)
		return
	}
	d.enrolled[namespace] = cancel
	d.log.Info("namespace enrolled", "namespace", namespace)
	d.work.Go(func() { pods.RunWithContext(ctx) })
	if d.enrols != nil {
		d.work.Go(func() { d.enrols(ctx, namespace) })
	}
}

// leave forgets a namespace that is enrolled no more.
func (d *directory) leave(namespace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cancel := d.enrolled[namespace]
	if cancel == nil {
		return
	}
	cancel()
	delete(d.enrolled, namespace)
	for name := range d.pods {
		if name.Namespace == namespace {
			d.ended(d.pods[name].pod)
			delete(d.pods, name)
		}
	}
	d.tell()
	d.log.Info("namespace is enrolled no more", "namespace", namespace)
}

func nameOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

func (d *directory) seen(p *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.enrolled[p.Namespace] == nil {
		return // late news of one that left
	}
	r := d.pods[nameOf(p)]
	if r == nil || r.uid != p.UID {
		every := rate.Every(reviewPause)
		r = &resident{uid: p.UID, own: rate.NewLimiter(every, reviewBurst), strangers: rate.NewLimiter(every, reviewBurst)}
	} else {
		copied := *r // who found it may be reading it
		r = &copied
	}
	r.account, r.pod = p.Spec.ServiceAccountName, p
	r.leaving = p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	d.pods[nameOf(p)] = r
	if r.leaving {
		d.ended(p)
	}
	d.tell()
}

func (d *directory) gone(p *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.pods[nameOf(p)]; r != nil && r.uid == p.UID {
		delete(d.pods, nameOf(p))
		d.ended(p)
		d.tell()
	}
}

// tell wakes those who wait for a change. The caller holds the lock.
func (d *directory) tell() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// ended tells of a pod that calls no more.
func (d *directory) ended(p *corev1.Pod) {
	if d.ends != nil {
		d.ends(callerOf(p.Namespace, p.Name, string(p.UID)))
	}
}

// callerOf is the pod as a caller of the pool: of two of one name, each is its own.
func callerOf(namespace, pod, uid string) pool.Caller {
	return pool.Caller{Tenant: namespace, Name: pod + "." + uid}
}

// change is closed at the next change.
func (d *directory) change() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// podOf is the living pod that a caller is; nil when it is not known any more.
func (d *directory) podOf(c pool.Caller) *corev1.Pod {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := strings.LastIndexByte(c.Name, '.') // a uid has none
	if i < 0 {
		return nil
	}
	r := d.pods[types.NamespacedName{Namespace: c.Tenant, Name: c.Name[:i]}]
	if r == nil || r.leaving || string(r.uid) != c.Name[i+1:] {
		return nil
	}
	return r.pod
}

// find is the pod with that name and uid; nil when it is not known. The watch
// may lag behind a pod that has just started: it is given atMost. isEnrolled
// says whether the namespace is.
func (d *directory) find(ctx context.Context, name types.NamespacedName, uid types.UID, atMost time.Duration) (r *resident, isEnrolled bool) {
	var late <-chan time.Time
	for {
		d.mu.Lock()
		r, isEnrolled = d.pods[name], d.enrolled[name.Namespace] != nil
		changed := d.changed
		d.mu.Unlock()
		if r != nil && r.uid == uid || !isEnrolled || atMost == 0 {
			break
		}
		if late == nil {
			timer := time.NewTimer(atMost)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
			continue
		case <-late:
		case <-ctx.Done():
		}
		break
	}
	if r != nil && r.uid != uid {
		r = nil
	}
	return r, isEnrolled
}
