//go:build e2e

package runs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// rollout bounds the replacement of all replicas, one after another.
const rollout = 3 * time.Minute

// restart does what "kubectl rollout restart" does.
func (p *platform) restart(t *testing.T) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339Nano))
	_, err := p.system.Kube.AppsV1().Deployments(systemName).Patch(t.Context(), poolName, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("cannot restart the pool: %v", err)
	}
}

// rolled waits until every replica is a new one and those of before are gone.
func (p *platform) rolled(t *testing.T) {
	t.Helper()
	p.system.EventuallyIn(rollout, "the pool is rolled out", func(ctx context.Context) error {
		d, err := p.system.Kube.AppsV1().Deployments(systemName).Get(ctx, poolName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas < *d.Spec.Replicas || s.AvailableReplicas < *d.Spec.Replicas || s.Replicas > *d.Spec.Replicas {
			return fmt.Errorf("of %d replicas %d are new and %d can be used", s.Replicas, s.UpdatedReplicas, s.AvailableReplicas)
		}
		return nil
	})
	p.settled(t)
}

// Template and target change while programs run: none is ended by that.
func TestP03ChangeInFlight(t *testing.T) {
	p := use(t, nil)
	urls := []string{p.agent(t, "change-0"), p.agent(t, "change-1"), p.agent(t, "change-2")}
	answers := make([]e2e.Answer, len(urls))
	var all, begun sync.WaitGroup
	for i, url := range urls {
		begun.Add(1)
		all.Go(func() {
			var once sync.Once
			code := "import time\nprint('begun', flush=True)\ntime.sleep(12)\nprint('whole')"
			a, err := e2e.Stream(t.Context(), url, map[string]any{"code": code, "timeout_seconds": 60}, func(string) { once.Do(begun.Done) })
			if err != nil {
				t.Errorf("no answer: %v", err)
			}
			answers[i] = a
			once.Do(begun.Done)
		})
	}
	begun.Wait()
	changed := base(p.system)
	changed["pool.target"], changed["sandbox.memoryMiB"] = 2, 384
	p.upgrade(t, changed)
	all.Wait()
	for _, a := range answers {
		// What was streamed is not told again.
		if a.Failure != nil || a.Outcome != "ok" {
			t.Errorf("%d %+v %+v", a.Status, a, a.Failure)
		}
	}
	p.rolled(t)
	// The change is there: the runner has 64 MiB of its own beside the 384.
	code := "b = bytearray(480 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('too much')"
	if a := run(t, urls[0], code); a.Outcome != "out_of_memory" {
		t.Errorf("with less memory: %+v", a)
	}
}

// The pool is restarted, replica by replica, while agents go on: every one of
// their programs has its result.
func TestP09RestartUnderLoad(t *testing.T) {
	p := use(t, nil)
	var stop atomic.Bool
	var seen ids
	var all sync.WaitGroup
	defer all.Wait()
	defer stop.Store(true)
	for i := range 3 {
		url := p.agent(t, fmt.Sprintf("load-%d", i))
		all.Go(func() {
			for n := 0; !stop.Load() && t.Context().Err() == nil; n++ {
				a := call(t, url, fmt.Sprintf("import time; time.sleep(0.3); print(%d)", n))
				if a.Failure != nil || a.Stdout != fmt.Sprintln(n) {
					t.Errorf("%d %+v %+v", a.Status, a, a.Failure)
					return
				}
				seen.add(a)
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	p.restart(t)
	p.rolled(t)
	stop.Store(true)
	all.Wait()
	seen.once(t, 10)
	t.Logf("%d runs", len(seen.served))
}
