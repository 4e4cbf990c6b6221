//go:build e2e

package runs

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// Thirty callers at once meet three warm sandboxes: every one is answered, or
// told when to come back, and no more pods are started than runs want.
func TestP01Burst(t *testing.T) {
	p := use(t, nil)
	url := p.agent(t, "burst")
	p.waitWarm(t)
	started := p.countPods(t)
	const callers = 30
	answers := make([]e2e.Answer, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { answers[i] = call(t, url, "print(6 * 7)") })
	}
	all.Wait()
	served := 0
	for _, a := range answers {
		switch {
		case a.Failure == nil && a.Stdout == "42\n":
			served++
		case a.Failure != nil && (a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable):
			if n, err := strconv.Atoi(a.RetryAfter); err != nil || n < 1 || a.Failure.Executed != "no" {
				t.Errorf("%d with Retry-After %q, executed %q", a.Status, a.RetryAfter, a.Failure.Executed)
			}
		default:
			t.Errorf("%d: %+v %+v", a.Status, a, a.Failure)
		}
	}
	if served < callers/2 {
		t.Errorf("%d of %d were served", served, callers)
	}
	n := started()
	t.Logf("%d served, %d pods started", served, n)
	if n > callers+3 {
		t.Errorf("%d pods were started for %d runs and a target of 3", n, callers)
	}
}

// countPods counts the sandboxes that are made from now on.
func (p *platform) countPods(t *testing.T) func() int {
	t.Helper()
	pods := p.sandboxes.Kube.CoreV1().Pods(sandboxesName)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	var mu sync.Mutex
	n := 0
	go func() {
		for e := range w.ResultChan() {
			if e.Type == watch.Added {
				mu.Lock()
				n++
				mu.Unlock()
			}
		}
	}()
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// waitWarm waits until each replica has its warm sandboxes, and no other is
// being made or destroyed. Demand may have made it keep more of them.
func (p *platform) waitWarm(t *testing.T) {
	t.Helper()
	p.sandboxes.Eventually("the pool is warm and at rest", func(ctx context.Context) error {
		replicas, err := p.system.Parts(ctx, "pool")
		if err != nil {
			return err
		}
		boxes, err := p.boxes(ctx)
		if err != nil {
			return err
		}
		warm := map[string]int{}
		for _, b := range boxes {
			if b.DeletionTimestamp != nil || b.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("of %d sandboxes one is %s", len(boxes), b.Status.Phase)
			}
			warm[b.Labels["code-sandbox.dev/replica"]]++
		}
		for replica, n := range warm {
			if n < 3 {
				return fmt.Errorf("%s has %d sandboxes", replica, n)
			}
		}
		if len(warm) != len(replicas) {
			return fmt.Errorf("%d of %d replicas have sandboxes", len(warm), len(replicas))
		}
		return nil
	})
}
