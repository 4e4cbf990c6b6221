//go:build e2e

package runs

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
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
	p := install(t, settings{"pool.replicas": "1"})
	url := p.agent(t, "agent")
	p.waitWarm(t, 3)
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
		case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
			if n, err := strconv.Atoi(a.RetryAfter); err != nil || n < 1 || a.Failure.Executed != "no" {
				t.Errorf("%d with Retry-After %q, executed %q", a.Status, a.RetryAfter, a.Failure.Executed)
			}
		default:
			t.Errorf("%d: %+v", a.Status, a)
		}
	}
	if served < 3 {
		t.Errorf("%d of %d were served", served, callers)
	}
	if n := started(); n > callers+3 {
		t.Errorf("%d pods were started for %d runs and a target of 3", n, callers)
	}
}

// No sandbox serves twice, on two replicas and for several agents: each
// program leaves a mark and looks for one.
func TestP02NoneServesTwice(t *testing.T) {
	p := shared(t)
	urls := []string{p.agent(t, "first"), p.agent(t, "second"), p.agent(t, "third")}
	const marks = `
import os
places = ["/tmp/mark", "mark", "/dev/shm/mark"]
print([p for p in places if os.path.exists(p)])
for p in places:
    try: open(p, "w").write("x")
    except OSError: pass
`
	var mu sync.Mutex
	ids := map[string]int{}
	var all sync.WaitGroup
	for _, url := range urls {
		for range 2 {
			all.Go(func() {
				for range 8 {
					a := call(t, url, marks)
					if a.Failure != nil && a.Failure.Retryable && a.Failure.Executed == "no" {
						continue
					}
					if a.Stdout != "[]\n" {
						t.Errorf("a program finds marks: %+v", a)
					}
					mu.Lock()
					ids[a.SandboxID]++
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	for id, n := range ids {
		if n > 1 {
			t.Errorf("sandbox %s served %d times", id, n)
		}
	}
	if len(ids) < 24 {
		t.Errorf("only %d runs were served: %v", len(ids), slices.Collect(maps.Keys(ids)))
	}
}

// countPods counts the sandboxes that are made from now on.
func (p *platform) countPods(t *testing.T) func() int {
	t.Helper()
	list, err := p.runs.Kube.CoreV1().Pods(p.runs.Name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.runs.Kube.CoreV1().Pods(p.runs.Name).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
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

// waitWarm waits until n sandboxes of the pool are running.
func (p *platform) waitWarm(t *testing.T, n int) {
	t.Helper()
	p.runs.Eventually(fmt.Sprintf("%d sandboxes run", n), func(ctx context.Context) error {
		pods, err := p.runs.Kube.CoreV1().Pods(p.runs.Name).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		if err != nil {
			return err
		}
		if len(pods.Items) < n {
			return fmt.Errorf("%d run", len(pods.Items))
		}
		return nil
	})
}

// sandboxes are the pods in the namespace of runs.
func (p *platform) sandboxes(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := p.runs.Kube.CoreV1().Pods(p.runs.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}
