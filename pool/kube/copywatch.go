package kube

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// copyWatches are the watches of the sandboxes beside agents, by namespace.
type copyWatches struct {
	mu        sync.Mutex
	informers map[string]cache.SharedIndexInformer
}

// Follow watches the copies in an enrolled namespace until ctx ends.
func (d *Driver) Follow(ctx context.Context, namespace string) {
	if namespace == d.opts.Pods.Namespace {
		return // it is watched already
	}
	informer, err := d.watchPods(namespace)
	if err != nil {
		d.log.Error("cannot watch the copies in an enrolled namespace", "namespace", namespace, "error", err)
		return
	}
	d.copies.set(namespace, informer)
	informer.RunWithContext(ctx)
	d.copies.drop(namespace, informer)
}

func (w *copyWatches) set(namespace string, informer cache.SharedIndexInformer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.informers == nil {
		w.informers = map[string]cache.SharedIndexInformer{}
	}
	w.informers[namespace] = informer
}

// drop forgets the watch, unless the namespace has a new one.
func (w *copyWatches) drop(namespace string, informer cache.SharedIndexInformer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.informers[namespace] == informer {
		delete(w.informers, namespace)
	}
}

// watched says whether the sandboxes of a namespace are seen.
func (d *Driver) watched(namespace string) bool {
	if namespace == d.opts.Pods.Namespace {
		return true
	}
	d.copies.mu.Lock()
	defer d.copies.mu.Unlock()
	informer := d.copies.informers[namespace]
	return informer != nil && informer.HasSynced()
}

// sandboxes are all pods that are sandboxes, of all replicas.
func (d *Driver) sandboxes() (pods []*corev1.Pod) {
	d.copies.mu.Lock()
	informers := []cache.SharedIndexInformer{d.informer}
	for _, informer := range d.copies.informers {
		informers = append(informers, informer)
	}
	d.copies.mu.Unlock()
	for _, informer := range informers {
		for _, object := range informer.GetStore().List() {
			if p, ok := object.(*corev1.Pod); ok {
				pods = append(pods, p)
			}
		}
	}
	return pods
}
