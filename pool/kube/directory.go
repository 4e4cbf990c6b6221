package kube

import (
	"context"
	"errors"
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
)

// directory knows the pods of the enrolled namespaces. It watches each of them
// apart: the pool has rights in them alone.
type directory struct {
	client kubernetes.Interface
	log    hclog.Logger
	work   sync.WaitGroup

	mu       sync.Mutex
	enrolled map[string]context.CancelFunc // by namespace
	pods     map[types.NamespacedName]*resident
	changed  chan struct{} // closed and replaced at every change
}

// resident is a pod of an enrolled namespace.
type resident struct {
	uid     types.UID
	account string
	leaving bool // it is being deleted, or has ended
	// reviews bounds how often tokens that name this pod are verified.
	reviews *rate.Limiter
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
	if err = errors.Join(err, pods.SetTransform(identityOnly), tellWatchErrors(pods, d.log.With("namespace", namespace))); err != nil {
		cancel()
		d.log.Error("cannot watch the pods of an enrolled namespace", "namespace", namespace, "error", err)
		return
	}
	d.enrolled[namespace] = cancel
	d.log.Info("namespace enrolled", "namespace", namespace)
	d.work.Go(func() { pods.RunWithContext(ctx) })
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
			delete(d.pods, name)
		}
	}
	d.log.Info("namespace is enrolled no more", "namespace", namespace)
}

// identityOnly keeps of a pod what tells who it is: of many pods, all else is
// memory.
func identityOnly(object any) (any, error) {
	p, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion, DeletionTimestamp: p.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{ServiceAccountName: p.Spec.ServiceAccountName},
		Status: corev1.PodStatus{Phase: p.Status.Phase},
	}, nil
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
		r = &resident{uid: p.UID, reviews: rate.NewLimiter(rate.Every(reviewPause), reviewBurst)}
	} else {
		copied := *r // who found it may be reading it
		r = &copied
	}
	r.account = p.Spec.ServiceAccountName
	r.leaving = p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	d.pods[nameOf(p)] = r
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *directory) gone(p *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.pods[nameOf(p)]; r != nil && r.uid == p.UID {
		delete(d.pods, nameOf(p))
	}
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
