//go:build e2e

package runs

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// An image that cannot be had comes with an upgrade: agents do not notice, as
// the replicas of before go on. The new one tries again, ever more seldom, and
// never has more sandboxes than it aims at; with a good image it recovers.
func TestP04BadImage(t *testing.T) {
	p := use(t, nil)
	url := p.agent(t, "old-image")
	before, err := p.system.Parts(t.Context(), "pool")
	if err != nil {
		t.Fatal(err)
	}
	bad := base(p.system)
	bad["sandbox.image.digest"] = "sha256:" + strings.Repeat("0", 64)
	started := p.countPods(t)
	p.upgrade(t, bad)
	failures := regexp.MustCompile(`code_sandbox_pool_start_failures_total (\d+)`)
	p.system.Eventually("the new replica counts starts that fail", func(ctx context.Context) error {
		pods, err := p.system.Parts(ctx, "pool")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if pod.Status.PodIP == "" {
				continue
			}
			text, err := p.system.Metrics(ctx, pod.Status.PodIP)
			if err != nil {
				continue // it has not begun
			}
			if found := failures.FindStringSubmatch(text); found != nil {
				if n, err := strconv.Atoi(found[1]); err == nil && n >= 3 {
					return nil
				}
			}
		}
		return fmt.Errorf("%d replicas do not", len(pods))
	})
	began := time.Now()
	for range 3 {
		if a := call(t, url, "print(1)"); a.Failure != nil || a.Stdout != "1\n" {
			t.Errorf("%d %+v %+v", a.Status, a, a.Failure)
		}
	}
	boxes, err := p.boxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pending := 0
	for _, b := range boxes {
		if b.Spec.Containers[0].Image == bad["sandbox.image.repository"].(string)+"@"+bad["sandbox.image.digest"].(string) {
			pending++
		}
	}
	if pending > 3 {
		t.Errorf("%d sandboxes of an image that cannot be had, and a target of 3", pending)
	}
	t.Logf("%d pods were started within %s", started(), time.Since(began))
	p.oneEvent(t, "image_pull: ", bad["sandbox.image.digest"].(string))
	p.upgrade(t, base(p.system), "--wait")
	p.rolled(t)
	after, err := p.system.Parts(t.Context(), "pool")
	if err != nil || len(after) != len(before) {
		t.Errorf("%d replicas, %v", len(after), err)
	}
	if a := run(t, url, "print(2)"); a.Stdout != "2\n" {
		t.Errorf("%+v", a)
	}
}

// Nothing more may be started: who gets no sandbox is told at once why, and
// when there is room again all goes on by itself.
func TestP04QuotaIsUsedUp(t *testing.T) {
	p := use(t, settings{"pool.replicas": 1})
	url := p.agent(t, "quota")
	p.waitWarm(t)
	p.quota(t, 0)
	t.Cleanup(func() { p.quota(t, 60) })
	started := p.countPods(t)
	var refused e2e.Answer
	slowest := time.Duration(0)
	for range 12 {
		began := time.Now()
		a := call(t, url, "print('ran')")
		if a.Failure == nil {
			continue
		}
		refused = a
		slowest = max(slowest, time.Since(began))
		if e := a.Failure; a.Status != 503 || e.Code != "no_capacity" || !e.Retryable || e.Executed != "no" || a.RetryAfter == "" ||
			!strings.Contains(e.Message, "quota") {
			t.Errorf("%d, Retry-After %q, %+v", a.Status, a.RetryAfter, e)
		}
	}
	if refused.Failure == nil {
		t.Fatal("nobody was refused")
	}
	t.Logf("the slowest refusal took %s: %s", slowest, refused.Failure.Message)
	if slowest > 10*time.Second {
		t.Errorf("a refusal took %s", slowest)
	}
	if n := started(); n > 0 {
		t.Errorf("%d pods were started beyond the quota", n)
	}
	p.oneEvent(t, "refused: ", "exceeded quota")
	// An agent that comes now finds the pool, and is told as well.
	if a := call(t, p.agent(t, "late"), "print('ran')"); a.Failure == nil || !strings.Contains(a.Failure.Message, "quota") {
		t.Errorf("a new agent is told %d %+v", a.Status, a.Failure)
	}
	p.quota(t, 60)
	p.waitWarm(t)
	if a := run(t, url, "print('again')"); a.Stdout != "again\n" {
		t.Errorf("%+v", a)
	}
	// What was asked for while starts failed is not made up for.
	if n := started(); n > 8 {
		t.Errorf("%d pods were started after it", n)
	}
}

// oneEvent wants that each replica whose starts failed has told why, in one
// Event that counts, and not one for each try.
func (p *platform) oneEvent(t *testing.T, words ...string) {
	t.Helper()
	p.sandboxes.Eventually("there is one Event for the cause", func(ctx context.Context) error {
		list, err := p.sandboxes.Kube.CoreV1().Events(sandboxesName).List(ctx, metav1.ListOptions{FieldSelector: "reason=SandboxNotStarted"})
		if err != nil {
			return err
		}
		found, counted := map[string]int{}, int32(0)
		for _, e := range list.Items {
			if strings.HasPrefix(e.Message, words[0]) && strings.Contains(e.Message, words[1]) {
				found[e.ReportingInstance]++
				counted = max(counted, e.Count)
			}
		}
		for replica, n := range found {
			if n > 1 {
				t.Errorf("%s has written %d Events about %q", replica, n, words)
			}
		}
		if counted < 2 {
			return fmt.Errorf("of %d Events none is about %q more than once", len(list.Items), words)
		}
		return nil
	})
}

// quota sets how many sandboxes the cluster lets be.
func (p *platform) quota(t *testing.T, pods int) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"hard":{"pods":"%d"}}}`, pods)
	quotas := p.sandboxes.Kube.CoreV1().ResourceQuotas(sandboxesName)
	if _, err := quotas.Patch(p.cleaning(t), "code-sandbox", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("cannot change the quota: %v", err)
	}
	p.sandboxes.Eventually("the quota is in force", func(context.Context) error {
		q, err := quotas.Get(p.cleaning(t), "code-sandbox", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if in := q.Status.Hard["pods"]; in.Value() != int64(pods) {
			return fmt.Errorf("it is %s", in.String())
		}
		return nil
	})
}

// A sandbox is claimed in the instant in which it becomes ready, again and
// again: each is one that answers. (What happens when it does not is in
// pool/kube.)
func TestP06ClaimedWhenReady(t *testing.T) {
	p := use(t, settings{"pool.replicas": 1})
	url := p.agent(t, "instant")
	var all sync.WaitGroup
	for range 12 { // more than are warm, so most wait for the next that is ready
		all.Go(func() {
			if a := call(t, url, "print('ready')"); a.Failure != nil || a.Stdout != "ready\n" {
				t.Errorf("%d %+v %+v", a.Status, a, a.Failure)
			}
		})
	}
	all.Wait()
}
