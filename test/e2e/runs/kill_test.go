//go:build e2e

package runs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// sleeper tells its sandbox and then stays for longer than any test waits.
const sleeper = "import os, time\nprint(os.uname().nodename, flush=True)\ntime.sleep(200)\n"

// asleep begins a run of sleeper and returns the name of its sandbox.
func asleep(t *testing.T, url string) (box string, ended <-chan e2e.Answer) {
	t.Helper()
	begun, done := make(chan string, 1), make(chan e2e.Answer, 1)
	go func() {
		a, err := e2e.Stream(t.Context(), url, map[string]any{"code": sleeper, "timeout_seconds": 250}, func(text string) {
			select {
			case begun <- strings.TrimSpace(text):
			default:
			}
		})
		if err != nil && a.Failure == nil {
			a.Failure = &e2e.Failure{Message: err.Error()} // the connection was lost with the sidecar
		}
		done <- a
	}()
	select {
	case box = <-begun:
	case a := <-done:
		t.Fatalf("it did not begin: %+v %+v", a, a.Failure)
	case <-time.After(e2e.Patience):
		t.Fatalf("it did not begin within %s", e2e.Patience)
	}
	return box, done
}

// goes waits until a sandbox does not exist any more.
func (p *platform) goes(t *testing.T, box string) {
	t.Helper()
	p.sandboxes.Eventually(box+" is gone", func(ctx context.Context) error {
		b, err := p.sandboxes.Kube.CoreV1().Pods(sandboxesName).Get(ctx, box, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it is %s, to be deleted at %v", b.Status.Phase, b.DeletionTimestamp)
		}
		return err
	})
}

// serving is the replica that has runs.
func (p *platform) serving(t *testing.T) string {
	t.Helper()
	pods, err := p.system.Parts(t.Context(), "pool")
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if n, err := p.system.Leased(t.Context(), pod.Status.PodIP); err == nil && n > 0 {
			return pod.Name
		}
	}
	t.Fatal("no replica of the pool has a run")
	return ""
}

// idle waits until no replica has a run.
func (p *platform) idle(t *testing.T) {
	t.Helper()
	p.system.Eventually("no replica has a run", func(ctx context.Context) error {
		pods, err := p.system.Parts(ctx, "pool")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			n, err := p.system.Leased(ctx, pod.Status.PodIP)
			if err != nil {
				return err
			}
			if n > 0 {
				return fmt.Errorf("%s has %d runs", pod.Name, n)
			}
		}
		return nil
	})
}

// Whoever is killed while programs run or wait: no sandbox outlives its run,
// and the pool is whole again by itself.
func TestP07Killed(t *testing.T) {
	p := use(t, nil)
	f := func(who string, kill func(agent string)) {
		t.Helper()
		url := p.agent(t, who)
		box, ended := asleep(t, url)
		// Others are on their way: some wait, some run, some have no sandbox yet.
		others := make(chan e2e.Answer, 6)
		for range cap(others) {
			go func() {
				a, err := e2e.Call(t.Context(), url, map[string]any{"code": "import time; time.sleep(0.5); print('done')", "timeout_seconds": 20})
				if err != nil {
					a.Failure = &e2e.Failure{Message: err.Error()}
				}
				others <- a
			}()
		}
		time.Sleep(300 * time.Millisecond)
		before, err := p.boxes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kill(who)
		a := <-ended
		t.Logf("%s is killed: %d %+v", who, a.Status, a.Failure)
		if a.Failure == nil {
			t.Errorf("%s is killed and the program has a result: %+v", who, a)
		}
		p.goes(t, box)
		for range cap(others) {
			if a := <-others; a.Failure == nil && a.Stdout != "done\n" {
				t.Errorf("%s is killed and another's result is %+v", who, a)
			}
		}
		p.idle(t)
		p.waitWarm(t)
		if who != "pool" {
			return
		}
		// A sandbox of the replica that died serves nobody, used or not.
		after, err := p.boxes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		owner := ""
		for _, b := range before {
			if b.Name == box {
				owner = b.Labels["code-sandbox.dev/replica"]
			}
		}
		for _, b := range after {
			if b.Labels["code-sandbox.dev/replica"] == owner {
				t.Errorf("%s of the replica that was killed is there", b.Name)
			}
		}
	}
	// The sidecar.
	f("sidecar", func(agent string) { p.tenants.Kill(agent, "sidecar") })
	// The agent's pod, at once.
	f("agent", func(agent string) {
		now := int64(0)
		if err := p.tenants.Kube.CoreV1().Pods(tenantsName).Delete(t.Context(), agent, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
	})
	// The replica of the pool.
	f("pool", func(string) { p.system.Kill(p.serving(t), "pool") })
}

// A pool that is killed when a run has just ended does not know of its sandbox
// any more: it is destroyed all the same, and serves nobody.
func TestP05KilledBeforeDestroy(t *testing.T) {
	p := use(t, nil)
	url := p.agent(t, "between")
	p.waitWarm(t)
	var seen ids
	a := run(t, url, "import os; print(os.uname().nodename)")
	pods, err := p.system.Parts(t.Context(), "pool")
	if err != nil {
		t.Fatal(err)
	}
	// Whichever it was.
	for _, pod := range pods {
		p.system.Kill(pod.Name, "pool")
	}
	seen.add(a)
	p.goes(t, a.SandboxID)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if a := call(t, url, "1"); a.Failure == nil {
				seen.add(a)
			} else {
				t.Errorf("%d %+v", a.Status, a.Failure)
			}
		})
	}
	all.Wait()
	seen.once(t, 9)
	p.waitWarm(t)
}

// A hundred runs on two replicas, in several rounds: one replica is killed, the
// other one is, both are one after another, all are replaced after a kill.
// Nobody is left without a word, no sandbox serves twice in any of them, and
// each gets the result of the own program.
func TestHundredClaims(t *testing.T) {
	p := use(t, nil)
	var urls []string
	for i := range 4 {
		urls = append(urls, p.agent(t, fmt.Sprintf("claims-%d", i)))
	}
	var seen ids
	kill := func(which int) func() {
		return func() {
			pods, err := p.system.Parts(t.Context(), "pool")
			if err != nil || len(pods) < 2 {
				t.Fatalf("%d replicas, %v", len(pods), err)
			}
			p.system.Kill(pods[which].Name, "pool")
		}
	}
	f := func(what string, at map[int]func()) {
		t.Helper()
		p.rolled(t)
		p.waitWarm(t)
		c := claims{urls: urls, seen: &seen, failed: map[string]int{}}
		c.run(t, at)
		t.Logf("%s: without a result: %v", what, c.failed)
		if lost := c.failed["sandbox_lost maybe"]; lost > claimers*len(at) {
			t.Errorf("%s: %d runs were lost; %d were in flight at each of %d", what, lost, claimers, len(at))
		}
	}
	f("one is killed", map[int]func(){30: kill(0)})
	f("the other is killed", map[int]func(){30: kill(1)})
	f("one is killed early, the other late", map[int]func(){10: kill(0), 80: kill(1)})
	f("one is killed, then all are replaced", map[int]func(){30: kill(0), 60: func() { p.restart(t) }})
	seen.once(t, 4*claimCount-5*claimers)
	p.rolled(t)
	// What is there belongs to the replicas of now.
	p.waitWarm(t)
}

const (
	claimCount = 100 // programs of a round
	claimers   = 10  // of which so many are under way at once
)

// claims are the programs of a round.
type claims struct {
	urls []string
	seen *ids

	mu     sync.Mutex
	failed map[string]int // by code and what is said of the execution
}

// run has all of them run; at says what is done before some of them.
func (c *claims) run(t *testing.T, at map[int]func()) {
	t.Helper()
	next := make(chan int)
	var all sync.WaitGroup
	defer all.Wait()
	defer close(next)
	for w := range claimers {
		all.Go(func() {
			for i := range next {
				c.one(t, c.urls[w%len(c.urls)], i)
			}
		})
	}
	for i := range claimCount {
		if act := at[i]; act != nil {
			act()
		}
		next <- i
	}
}

func (c *claims) one(t *testing.T, url string, i int) {
	a := call(t, url, fmt.Sprintf("import time; time.sleep(0.1); print(%d)", i))
	switch e := a.Failure; {
	case e == nil && a.Stdout == fmt.Sprintln(i):
		c.seen.add(a)
	case e == nil:
		t.Errorf("run %d has the result %+v", i, a)
	default:
		// What had begun with a replica that died is lost; of all else nothing had
		// run.
		if !e.Retryable || (e.Code == "sandbox_lost") != (e.Executed == "maybe") {
			t.Errorf("run %d: %d %+v", i, a.Status, e)
		}
		c.mu.Lock()
		c.failed[e.Code+" "+e.Executed]++
		c.mu.Unlock()
	}
}
