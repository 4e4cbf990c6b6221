package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// life is when the watch told of a pod's steps; zero of one that was not taken.
// The API server's own times have no parts of a second.
type life struct {
	made, scheduled, address, ready, deleting, gone time.Time

	replica string // of the pool, that it belongs to
}

// watcher takes note of the lives of all pods of a namespace.
type watcher struct {
	mu     sync.Mutex
	lives  map[string]*life
	change chan struct{} // closed and replaced at each event
	ended  error
}

func watchPods(ctx context.Context, kube kubernetes.Interface, namespace string) (*watcher, error) {
	list, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list the pods of %q: %w", namespace, err)
	}
	w := &watcher{lives: map[string]*life{}, change: make(chan struct{})}
	for i := range list.Items {
		w.note(watch.Added, &list.Items[i])
	}
	events, err := kube.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("cannot watch the pods of %q: %w", namespace, err)
	}
	go func() {
		defer events.Stop()
		from := list.ResourceVersion
		for ctx.Err() == nil {
			for e := range events.ResultChan() {
				if p, ok := e.Object.(*corev1.Pod); ok {
					from = p.ResourceVersion
					w.note(e.Type, p)
				}
			}
			// The API server ends a watch after some minutes.
			if events, err = kube.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: from}); err != nil {
				w.end(fmt.Errorf("cannot watch the pods of %q: %w", namespace, err))
				return
			}
		}
		w.end(ctx.Err())
	}()
	return w, nil
}

func (w *watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = err
	w.changed()
}

func (w *watcher) changed() {
	close(w.change)
	w.change = make(chan struct{})
}

func (w *watcher) note(what watch.EventType, p *corev1.Pod) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lives[p.Name]
	if l == nil {
		l = &life{made: now, replica: p.Labels["code-sandbox.dev/replica"]}
		w.lives[p.Name] = l
	}
	once := func(t *time.Time, is bool) {
		if is && t.IsZero() {
			*t = now
		}
	}
	once(&l.scheduled, p.Spec.NodeName != "")
	once(&l.address, p.Status.PodIP != "")
	once(&l.ready, isReady(p))
	once(&l.deleting, p.DeletionTimestamp != nil)
	once(&l.gone, what == watch.Deleted)
	w.changed()
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// wait returns the pod's life once it is as wanted.
func (w *watcher) wait(ctx context.Context, pod string, is func(life) bool) (life, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		w.mu.Lock()
		var l life
		if known := w.lives[pod]; known != nil {
			l = *known
		}
		change, ended := w.change, w.ended
		w.mu.Unlock()
		switch {
		case is(l):
			return l, nil
		case ended != nil:
			return l, ended
		}
		select {
		case <-change:
		case <-ctx.Done():
			return l, fmt.Errorf("cannot wait for the pod %q: %w", pod, errors.Join(ctx.Err(), ended))
		}
	}
}

// count is how many pods exist, and how many of them are ready and stay.
func (w *watcher) count() (all, ready int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lives {
		if l.gone.IsZero() {
			all++
			if !l.ready.IsZero() && l.deleting.IsZero() {
				ready++
			}
		}
	}
	return all, ready
}

// since lists the lives of pods made after t.
func (w *watcher) since(t time.Time) []life {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []life
	for _, l := range w.lives {
		if l.made.After(t) {
			all = append(all, *l)
		}
	}
	return all
}
