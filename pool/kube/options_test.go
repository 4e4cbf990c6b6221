package kube

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

func TestOptionsAreRefused(t *testing.T) {
	f := func(want string, change func(*Options)) {
		t.Helper()
		o := Options{Client: fake.NewClientset(), Pods: testPods(), Canaries: []string{"10.96.0.1:443"}}
		if _, err := New(o); err != nil {
			t.Fatal(err)
		}
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want one that names %q", err, want)
		}
	}
	f("Client", func(o *Options) { o.Client = nil })
	f("LeaseDuration", func(o *Options) { o.LeaseDuration = time.Second })
	f("LookBound", func(o *Options) { o.LookBound = -1 })
	f("CanaryAddress", func(o *Options) { o.CanaryListen = "127.0.0.1:0" })
	// A proof of nothing, unless that is wanted in words.
	f("NoNetworkProof", func(o *Options) { o.Canaries = nil })
	// A name needs a lookup, which a sandbox may not have.
	f("kubernetes:443", func(o *Options) { o.Canaries = []string{"kubernetes:443"} })
	f("namespace", func(o *Options) { o.Pods.Namespace = "" })
	// A port that is taken is told at once.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f("canary", func(o *Options) { o.CanaryListen, o.CanaryAddress = taken.Addr().String(), "127.0.0.1:1" })
}

// The pool's own canary is believed only while the pool reaches it.
func TestCanary(t *testing.T) {
	c, err := listenCanary("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	c.address = c.listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.serve(ctx)
	}()
	for range 3 {
		if err := c.alive(t.Context()); err != nil {
			t.Error(err)
		}
	}
	cancel()
	<-done
	if err := c.alive(t.Context()); err == nil {
		t.Error("a canary that is gone is alive")
	}
	// No sandbox starts on the word of a dead canary.
	w := newWorld(t)
	d, err := New(Options{Client: w.kube, Pods: testPods(), CanaryListen: "127.0.0.1:0", CanaryAddress: c.address, Connect: w.connect})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- d.Run(ctx) }()
	_, err = d.Start(t.Context(), testTemplate())
	if e := api.From(err); e.Reason != reasonNetwork || !strings.Contains(e.Message, "canary") {
		t.Errorf("got %v", err)
	}
	if left := w.pods(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
