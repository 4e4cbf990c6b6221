//go:build e2e

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/kube"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/test/cluster"
)

// box starts a sandbox that is destroyed when the test ends.
func (s *site) box(t *testing.T, d *kube.Driver, template pool.Template) pool.Sandbox {
	t.Helper()
	box, err := d.Start(t.Context(), template)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := d.Destroy(ctx, box.ID()); err != nil {
			t.Error(err)
		}
	})
	return box
}

func run(t *testing.T, box pool.Sandbox, code string) (*wire.Result, error) {
	t.Helper()
	began := time.Now()
	res, err := box.Run(t.Context(), &wire.Request{Code: code, TimeoutSeconds: 30}, nil)
	if err == nil {
		t.Logf("%s, exit code %d, after %v: %s", res.Outcome, res.ExitCode, time.Since(began), res.Reason)
	}
	return res, err
}

// Abnormal ends have their names, whoever knows them: the runner, or the pod's
// status.
func TestEnds(t *testing.T) {
	s := newSite(t, true)
	d := s.driver(t, nil)
	f := func(code string, want wire.Outcome) {
		t.Helper()
		res, err := run(t, s.box(t, d, s.template()), code)
		if err != nil || res.Outcome != want || !strings.HasPrefix(res.Stdout, "begun\n") {
			t.Errorf("got %+v, %v; want %q", res, err, want)
		}
	}
	const begun = "import os, time, mmap\nprint('begun', flush=True)\n"
	// Memory of its own, beyond the limit.
	f(begun+"b = bytearray(600 << 20)\n", wire.OutOfMemory)
	// The volume for files is full: one limit for all places.
	f(begun+"open('a', 'wb').write(bytes(40 << 20))\nopen('/tmp/b', 'wb').write(bytes(40 << 20))\n", wire.DiskFull)
	f(begun+"import signal\nos.kill(os.getpid(), signal.SIGKILL)\n", wire.Killed)
}

// What ends a pod while its program runs is named, with what it had printed.
func TestTakenAway(t *testing.T) {
	s := newSite(t, true)
	d := s.driver(t, nil)
	f := func(outcome wire.Outcome, words string, take func(ctx context.Context, name string) error) {
		t.Helper()
		box := s.box(t, d, s.template())
		begun := make(chan struct{})
		taken := make(chan error, 1)
		go func() {
			<-begun
			taken <- take(t.Context(), box.ID())
		}()
		first := true
		sink := func(wire.Stream, string) {
			if first {
				first = false
				close(begun)
			}
		}
		began := time.Now()
		res, err := box.Run(t.Context(), &wire.Request{Code: "import time\nprint('begun', flush=True)\ntime.sleep(25)\n", TimeoutSeconds: 30}, sink)
		if takeErr := <-taken; takeErr != nil {
			t.Fatal(takeErr)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if outcome == "" {
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Code != api.SandboxLost || e.Executed != api.Maybe || !strings.Contains(e.Message, words) {
				t.Errorf("got %+v, %v", res, err)
			}
			return
		}
		if err != nil || res.Outcome != outcome || !strings.Contains(res.Reason, words) || res.Stdout != "begun\n" {
			t.Errorf("got %+v, %v; want %q", res, err, outcome)
		}
	}
	pods := s.Kube.CoreV1().Pods(s.Name)
	// By a drain.
	f(wire.Evicted, "", func(ctx context.Context, name string) error {
		return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Name}})
	})
	// By somebody who deletes the pod: nobody says why.
	f("", "", func(ctx context.Context, name string) error { return pods.Delete(ctx, name, metav1.DeleteOptions{}) })
	// By ourselves.
	f("", "destroyed", d.Destroy)
}

// What a program finds in its sandbox, in every form that a sandbox has.
func TestInside(t *testing.T) {
	s := newSite(t, true)
	f := func(isolation string, change func(*kube.PodConfig)) {
		t.Helper()
		d := s.driver(t, func(o *kube.Options) {
			if change != nil {
				change(&o.Pods)
			}
		})
		began := time.Now()
		box := s.box(t, d, s.template())
		t.Logf("%s started in %v", isolation, time.Since(began))
		res, err := run(t, box, inside)
		if err != nil || res.Outcome != wire.OK || res.Stdout != insideWant || res.Isolation != isolation {
			t.Errorf("got %+v, %v", res, err)
		}
	}
	// As it is by itself.
	f("pod", nil)
	// With users of its own.
	f("pod", func(c *kube.PodConfig) { c.UserNamespace = true })
	// The runner from an image volume.
	f("pod", func(c *kube.PodConfig) { c.RunnerFrom = kube.RunnerVolume })
	// In another kernel.
	f("gvisor", func(c *kube.PodConfig) { c.RuntimeClass = "gvisor" })
}

const inside = `
import os, socket, sys
def tries(what, act):
    try:
        act()
        print(what, "works")
    except OSError as e:
        print(what, "fails")
def dial(host, port):
    socket.create_connection((host, port), timeout=1).close()
def write(path):
    with open(path, "w") as f:
        f.write("x")
print(os.getuid(), os.getcwd(), sorted(k for k in os.environ if k.startswith(("KUBERNETES", "CODE_SANDBOX"))))
tries("API server", lambda: dial("` + cluster.APIIP + `", 443))
tries("internet", lambda: dial("` + cluster.WorldIP + `", 80))
tries("metadata", lambda: dial("` + cluster.MetaIP + `", 80))
tries("kubelet", lambda: dial("` + cluster.NodeIP + `", 10250))
tries("lookup", lambda: socket.gethostbyname("world.example"))
tries("token", lambda: os.listdir("/var/run/secrets"))
tries("root", lambda: write("/etc/x"))
tries("runner", lambda: write("/opt/code-sandbox/runner"))
for path in "/work/x", "/tmp/x", "/dev/shm/x":
    tries(path, lambda: write(path))
`

const insideWant = `65532 /work []
API server fails
internet fails
metadata fails
kubelet fails
lookup works
token fails
root fails
runner fails
/work/x works
/tmp/x works
/dev/shm/x works
`

// A program that fails for want of a network is told so, as on one machine, however
// the cluster closes it.
func TestDialledOutside(t *testing.T) {
	s := newSite(t, true)
	for _, class := range []string{"", "gvisor"} {
		d := s.driver(t, func(o *kube.Options) { o.Pods.RuntimeClass = class })
		f := func(code string, outcomes ...wire.Outcome) {
			t.Helper()
			code = "import socket, urllib.request\nprint(socket.gethostbyname('world.example'), flush=True)\n" + code
			res, err := s.box(t, d, s.template()).Run(t.Context(), &wire.Request{Code: code, TimeoutSeconds: 10}, nil)
			if err != nil || res.Stdout != cluster.WorldIP+"\n" || !slices.Contains(outcomes, res.Outcome) || !slices.Equal(res.Denied, []wire.Denial{wire.DeniedNetwork}) {
				t.Errorf("%q: %s:\ngot %+v, %v", class, code, res, err)
			}
		}
		f("urllib.request.urlopen('http://world.example/', timeout=1)", wire.Failed)
		f("socket.create_connection(('"+cluster.WorldIP+"', 80))", wire.Failed, wire.Timeout)
	}
}

// Without DNS a lookup fails, and fails at once.
func TestNoDNS(t *testing.T) {
	s := newSite(t, true)
	template := s.template()
	template.DNS = kube.DNSNone
	code := "import socket, time\nbegan = time.time()\ntry:\n    print(socket.gethostbyname('world.example'))\nexcept OSError:\n    print('no', time.time() - began < 2)\n"
	res, err := run(t, s.box(t, s.driver(t, nil), template), code)
	if err != nil || res.Stdout != "no True\n" {
		t.Errorf("got %+v, %v", res, err)
	}
}

// In another kernel the ends have the same names.
func TestEndsInGVisor(t *testing.T) {
	s := newSite(t, true)
	d := s.driver(t, func(o *kube.Options) { o.Pods.RuntimeClass = "gvisor" })
	f := func(code string, want wire.Outcome) {
		t.Helper()
		res, err := run(t, s.box(t, d, s.template()), "print('begun', flush=True)\n"+code)
		if err != nil || res.Outcome != want || !strings.HasPrefix(res.Stdout, "begun\n") || res.Isolation != "gvisor" {
			t.Errorf("got %+v, %v; want %q", res, err, want)
		}
	}
	f("b = bytearray(600 << 20)\n", wire.OutOfMemory)
	f("open('a', 'wb').write(bytes(100 << 20))\n", wire.DiskFull)
}

// The pool on real pods: more callers than there are warm sandboxes all get
// one of their own, and nothing is left.
func TestPool(t *testing.T) {
	s := newSite(t, true)
	p, err := pool.New(pool.Options{Driver: s.driver(t, nil), Templates: []pool.Template{s.template()}, Target: 3, Max: 8})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	var mu sync.Mutex
	seen := map[string]bool{}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			caller := pool.Caller{Tenant: "agents", Name: fmt.Sprint(i % 4)}
			res, err := p.Exec(t.Context(), caller, s.template(), &wire.Request{Code: fmt.Sprintf("print(%d)", i), TimeoutSeconds: 20}, nil)
			if err != nil || res.Stdout != fmt.Sprintf("%d\n", i) {
				t.Errorf("got %+v, %v", res, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[res.SandboxID] {
				t.Errorf("%s served twice", res.SandboxID)
			}
			seen[res.SandboxID] = true
		})
	}
	all.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.empty()
}
