package kube

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// world is a cluster without physics: an API server that keeps objects, a node
// that gives each pod an address, and runners that do as they are told.
type world struct {
	*testing.T
	kube *fake.Clientset

	mu sync.Mutex
	// schedule says what a pod's status becomes; nil is running with an address.
	schedule func(*corev1.Pod)
	// refuse, by verb, is what the API server answers to requests about pods
	// instead of carrying them out; nil as an answer carries it out.
	refuse map[string]func(clienttesting.Action) error
	ignore bool // deletions are answered well and forgotten
	// runner is what a connection does.
	runner  func() *fakeConn
	conns   []*fakeConn
	secrets []string
	created int
	last    *Driver
	silent  string // the replica whose Lease can no longer be changed
}

// inWorld runs the test in a bubble of time, with a driver that runs as it does
// when nothing is set that need not be.
func inWorld(t *testing.T, test func(w *world, d *Driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, end := w.driver()
		test(w, d)
		end()
	})
}

// inWorldWith is inWorld with a driver whose options prepare changes; what that
// returns is the test.
func inWorldWith(t *testing.T, prepare func(w *world, opts *Options) (test func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var test func()
		d, end := w.driver(func(o *Options) { test = prepare(w, o) })
		w.last = d
		test()
		end()
	})
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, kube: fake.NewClientset(), runner: func() *fakeConn { return &fakeConn{} }, refuse: map[string]func(clienttesting.Action) error{}}
	w.kube.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		p := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.refusal(a); err != nil {
			return true, nil, err
		}
		w.created++
		p.UID = types.UID("uid-" + p.Name)
		if schedule := w.schedule; schedule != nil {
			schedule(p)
		} else {
			running1(p)
		}
		return false, nil, nil
	})
	w.kube.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.refusal(a); err != nil {
			return true, nil, err
		}
		return w.ignore, nil, nil
	})
	w.kube.PrependReactor("*", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if p, ok := a.(clienttesting.PatchAction); ok && w.silent != "" && p.GetName() == "code-sandbox-"+w.silent {
			return true, nil, errHungUp
		}
		return false, nil, nil
	})
	return w
}

// silence keeps a replica from renewing its Lease.
func (w *world) silence(replica string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = replica
}

func (w *world) refusal(a clienttesting.Action) error {
	if refuse := w.refuse[a.GetVerb()]; refuse != nil {
		return refuse(a)
	}
	return nil
}

// refuses sets what the API server answers to a verb.
func (w *world) refuses(verb string, answer func(clienttesting.Action) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse[verb] = answer
}

func running1(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}
}

// driver makes a driver in the world and runs it until end is called.
func (w *world) driver(change ...func(*Options)) (d *Driver, end func()) {
	w.Helper()
	opts := Options{
		Client: w.kube, Pods: testPods(), Canaries: []string{"10.96.0.1:443"},
		Connect: func(ctx context.Context, addr, secret string) (Conn, error) { return w.connect(ctx, addr, secret) },
	}
	for _, c := range change {
		c(&opts)
	}
	d, err := New(opts)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	<-d.ready
	return d, func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	}
}

func (w *world) connect(ctx context.Context, addr, secret string) (Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if addr != "10.0.0.1:8901" {
		w.Errorf("the runner is looked for at %q", addr)
	}
	c := w.runner()
	c.broken = make(chan struct{})
	w.conns = append(w.conns, c)
	w.secrets = append(w.secrets, secret)
	return c, nil
}

// setStatus changes a pod as a kubelet would.
func (w *world) setStatus(name string, change func(*corev1.Pod)) {
	w.Helper()
	pods := w.kube.CoreV1().Pods(testPods().Namespace)
	p, err := pods.Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	change(p)
	if _, err := pods.UpdateStatus(w.Context(), p, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// pods are the names of those that exist.
func (w *world) pods() []string {
	w.Helper()
	list, err := w.kube.CoreV1().Pods("").List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return names
}

// writes are the requests that changed anything or ran anything, as "verb
// resource".
func (w *world) requests() []string {
	var found []string
	for _, a := range w.kube.Actions() {
		found = append(found, strings.TrimSuffix(a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/"))
	}
	return found
}

// fakeConn is a runner.
type fakeConn struct {
	fresh  func(ctx context.Context, p wire.Proof) (wire.Fresh, error)
	run    func(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error)
	egress func(ctx context.Context) (net.Conn, error)
	once   sync.Once
	broken chan struct{}
	proof  wire.Proof
	// prepare is the answer to Prepare, prepared what it was given.
	prepare  error
	prepared *wire.Copy
	// covers is what its image has that the pod must cover.
	covers wire.Covers
}

var errHungUp = errors.New("it hung up")

func (c *fakeConn) Fresh(ctx context.Context, p wire.Proof) (wire.Fresh, error) {
	c.proof = p
	if c.fresh != nil {
		return c.fresh(ctx, p)
	}
	return wire.Fresh{Fresh: true}, nil
}

func (c *fakeConn) Prepare(_ context.Context, program *wire.Copy) (wire.Covers, error) {
	c.prepared = program
	return c.covers, c.prepare
}

func (c *fakeConn) Run(ctx context.Context, req *wire.Request, sink wire.Sink) (*wire.Result, error) {
	if c.run != nil {
		return c.run(ctx, req, sink)
	}
	return &wire.Result{Outcome: wire.OK, Stdout: "hello\n"}, nil
}

func (c *fakeConn) Egress(ctx context.Context) (net.Conn, error) {
	if c.egress != nil {
		return c.egress(ctx)
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (c *fakeConn) Broken() <-chan struct{} { return c.broken }

func (c *fakeConn) Close() error {
	c.hangUp()
	return nil
}

func (c *fakeConn) hangUp() { c.once.Do(func() { close(c.broken) }) }

// after waits in the bubble's time.
func after(d time.Duration) { time.Sleep(d); synctest.Wait() }
