//go:build e2e

package kube_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/kube"
	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// cutter is a network that can be cut.
type cutter struct {
	next http.RoundTripper
	cut  *atomic.Bool
}

var errCut = errors.New("the network is cut")

func (c cutter) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return nil, errCut
	}
	return c.next.RoundTrip(req)
}

// A replica that dies loses its sandboxes to another, which leaves its own and
// those of the living alone.
func TestReplicaDies(t *testing.T) {
	s := newSite(t, true)
	quick := func(o *kube.Options) { o.LeaseDuration = 3 * time.Second }
	var cut atomic.Bool
	dying := s.driver(t, func(o *kube.Options) {
		quick(o)
		config := rest.CopyConfig(s.Config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return cutter{next: next, cut: &cut} })
		var err error
		if o.Client, o.Bookkeeping, err = kube.Clients(config); err != nil {
			t.Fatal(err)
		}
	})
	orphan, err := dying.Start(t.Context(), s.template())
	if err != nil {
		t.Fatal(err)
	}
	living := s.driver(t, quick)
	kept := s.box(t, living, s.template())
	cut.Store(true)
	began := time.Now()
	s.Eventually("the orphan is gone", func(ctx context.Context) error {
		_, err := s.Kube.CoreV1().Pods(s.Name).Get(ctx, orphan.ID(), metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		return nil
	})
	t.Logf("gone after %v", time.Since(began))
	s.Eventually("its lease is gone", func(ctx context.Context) error {
		list, err := s.Kube.CoordinationV1().Leases(s.Name).List(ctx, metav1.ListOptions{LabelSelector: kube.LabelReplica + "=" + dying.Replica()})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("it is there")
		}
		return err
	})
	if res, err := run(t, kept, "print('here')"); err != nil || res.Stdout != "here\n" {
		t.Errorf("the sandbox of the living gives %+v, %v", res, err)
	}
	cut.Store(false) // so that it can stop
}

// A real token stands for its pod, to those it was made for, while the pod
// lives.
func TestCallers(t *testing.T) {
	agents := e2e.NewSpace(t, e2e.Labels(map[string]string{kube.LabelEnabled: "true"}))
	others := e2e.NewSpace(t)
	callers, err := kube.NewCallers(kube.CallersOptions{Client: agents.Kube, Remember: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- callers.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for _, s := range []*e2e.Space{agents, others} {
		s.Create(s.Pod("agent", "probe", "sleep"))
	}
	token := func(s *e2e.Space, audience string, bound bool) string {
		t.Helper()
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
		if bound {
			request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "agent", UID: s.Get("agent").UID}
		}
		answer, err := s.Kube.CoreV1().ServiceAccounts(s.Name).CreateToken(t.Context(), "default", request, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status.Token
	}
	const audience = "code-sandbox-pool"
	good := token(agents, audience, true)
	want := pool.Caller{Tenant: agents.Name, Name: "agent." + string(agents.Get("agent").UID)}
	agents.Eventually("callers are known", func(ctx context.Context) error {
		got, err := callers.Resolve(ctx, good, netip.Addr{})
		if err == nil && got != want {
			err = errors.New("it is " + got.Name)
		}
		return err
	})
	f := func(token string, code api.Code, words string) {
		t.Helper()
		_, err := callers.Resolve(t.Context(), token, netip.Addr{})
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != code || !strings.Contains(e.Message, words) {
			t.Errorf("got %v, want %q, %q", err, code, words)
		}
	}
	f(token(agents, "vault", true), api.Unauthenticated, "audience")
	f(token(agents, audience, false), api.Unauthenticated, "not bound")
	f(token(others, audience, true), api.Forbidden, "not enrolled")
	// A signature that is not the API server's.
	head, signature := good[:strings.LastIndex(good, ".")+1], []byte(good[strings.LastIndex(good, ".")+1:])
	signature[10] ^= 1
	f(head+string(signature), api.Unauthenticated, "does not know it")
	// The pod ends.
	if err := agents.Kube.CoreV1().Pods(agents.Name).Delete(t.Context(), "agent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	agents.Eventually("the pod's token is refused", func(ctx context.Context) error {
		if _, err := callers.Resolve(ctx, good, netip.Addr{}); err == nil {
			return errors.New("it is good")
		}
		return nil
	})
	// Another namespace is enrolled, and its pods call.
	ns, err := others.Kube.CoreV1().Namespaces().Get(t.Context(), others.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns.Labels[kube.LabelEnabled] = "true"
	if _, err := others.Kube.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	agents.Eventually("others are known", func(ctx context.Context) error {
		_, err := callers.Resolve(ctx, token(others, audience, true), netip.Addr{})
		return err
	})
}
