package kube

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// A good token is verified once a minute, and never believed when it has
// expired or its pod is not there any more.
func TestGoodToken(t *testing.T) {
	inOffice(t, func(o *office) {
		good := token("agents", "agent-1", "uid-1", life, "a")
		o.want(good, "", "", 1)
		o.want(good, "", "", 0)
		after(59 * time.Second)
		o.want(good, "", "", 0)
		after(2 * time.Second)
		o.want(good, "", "", 1)
		// One that expires sooner.
		short := token("agents", "agent-1", "uid-1", 10*time.Second, "a")
		o.want(short, "", "", 1)
		after(10 * time.Second)
		o.want(short, api.Unauthenticated, "expired", 0)
		// Its pod ends.
		o.pod("agent-1", "uid-1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		after(time.Millisecond)
		o.want(good, api.Unauthenticated, "is ending", 0)
		// Another takes its name: a StatefulSet's, for example.
		o.pod("agent-1", "uid-2", nil)
		after(time.Millisecond)
		o.want(good, api.Unauthenticated, "does not exist", 0)
		// The namespace is enrolled no more.
		if err := o.kube.CoreV1().Namespaces().Delete(o.Context(), "agents", metav1.DeleteOptions{}); err != nil {
			o.Fatal(err)
		}
		after(time.Millisecond)
		o.want(good, api.Forbidden, LabelEnabled, 0)
	})
}

// What cannot be good costs the API server nothing.
func TestBadTokensAreNotVerified(t *testing.T) {
	inOffice(t, func(o *office) {
		f := func(token string, code api.Code, words string) {
			t.Helper()
			o.want(token, code, words, 0)
		}
		f("", api.Unauthenticated, "no JSON Web Token")
		f("a.b.c", api.Unauthenticated, "no JSON Web Token")
		f("a."+base64.RawURLEncoding.EncodeToString([]byte("[]"))+".c", api.Unauthenticated, "claims")
		f(strings.Repeat("a", maxToken+1), api.Unauthenticated, "longer")
		f(token("agents", "agent-1", "uid-1", -time.Second, "a"), api.Unauthenticated, "expired")
		f(token("agents", "agent-1", "uid-1", life, "a", "aud", `"vault"`), api.Unauthenticated, "audience")
		f(token("agents", "agent-1", "uid-1", life, "a", "aud", `["vault"]`), api.Unauthenticated, "audience")
		// A token of an account, bound to no pod.
		f(token("agents", "", "", life, "a"), api.Unauthenticated, "not bound")
		// A pod that is not there, or of another uid: waited for, then refused.
		f(token("agents", "agent-9", "uid-9", life, "a"), api.Unauthenticated, "does not exist")
		f(token("agents", "agent-1", "uid-9", life, "a"), api.Unauthenticated, "does not exist")
		f(token("others", "agent-1", "uid-1", life, "a"), api.Forbidden, "not enrolled")
		f(token("none", "agent-1", "uid-1", life, "a"), api.Forbidden, "not enrolled")
	})
}

// What the API server says is believed, not what the token says.
func TestTokensAreVerified(t *testing.T) {
	f := func(words string, change func(*authenticationv1.TokenReviewStatus)) {
		t.Helper()
		inOffice(t, func(o *office) {
			t.Helper()
			o.answers(func(r *authenticationv1.TokenReview) error {
				err := o.good(r)
				change(&r.Status)
				return err
			})
			bad := token("agents", "agent-1", "uid-1", life, "a")
			o.want(bad, api.Unauthenticated, words, 1)
			o.want(bad, api.Unauthenticated, words, 0)
			o.answers(o.good)
			after(11 * time.Second)
			o.want(bad, "", "", 1)
		})
	}
	f("does not know it", func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false })
	f("audience", func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"https://kubernetes.default.svc"} })
	f("another account's", func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "system:serviceaccount:agents:admin" })
	f("another pod's", func(s *authenticationv1.TokenReviewStatus) {
		s.User.Extra[extraPodUID] = authenticationv1.ExtraValue{"uid-2"}
	})
	f("another pod's", func(s *authenticationv1.TokenReviewStatus) { s.User.Extra = nil })
}

// An API server that fails is no verdict.
func TestReviewFails(t *testing.T) {
	inOffice(t, func(o *office) {
		o.answers(func(*authenticationv1.TokenReview) error { return errHungUp })
		good := token("agents", "agent-1", "uid-1", life, "a")
		o.want(good, api.NoCapacity, "does not answer", 1)
		o.answers(o.good)
		o.want(good, "", "", 1)
	})
}

// A flood of forged tokens that name a pod which is there reaches the API
// server a few times, and does not push out what is known to be good.
func TestFlood(t *testing.T) {
	inOffice(t, func(o *office) {
		good := token("agents", "agent-1", "uid-1", life, "a")
		o.want(good, "", "", 1)
		o.answers(func(r *authenticationv1.TokenReview) error { r.Status.Authenticated = false; return nil })
		before := o.questions()
		var all sync.WaitGroup
		for i := range 10000 {
			all.Go(func() {
				_, err := o.callers.Resolve(o.Context(), token("agents", "agent-1", "uid-1", life, fmt.Sprint(i)), netip.Addr{})
				if err == nil {
					o.Error("a forged token is good")
				}
			})
		}
		all.Wait()
		if n := o.questions() - before; n > reviewBurst {
			o.Errorf("the API server was asked %d times", n)
		}
		o.want(good, "", "", 0)
	})
}

// Many who show the same token at once ask once.
func TestSameTokenAtOnce(t *testing.T) {
	inOffice(t, func(o *office) {
		o.answers(func(r *authenticationv1.TokenReview) error { time.Sleep(time.Second); return o.good(r) })
		good := token("agents", "agent-1", "uid-1", life, "a")
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := o.callers.Resolve(o.Context(), good, netip.Addr{}); err != nil {
					o.Error(err)
				}
			})
		}
		all.Wait()
		if n := o.questions(); n != 1 {
			o.Errorf("the API server was asked %d times", n)
		}
	})
}

// A pod that calls before the watch has shown it is waited for.
func TestNewPodCalls(t *testing.T) {
	inOffice(t, func(o *office) {
		time.AfterFunc(time.Second, func() { o.pod("agent-2", "uid-2", nil) })
		began := time.Now()
		got, err := o.callers.Resolve(o.Context(), token("agents", "agent-2", "uid-2", life, "a"), netip.Addr{})
		if err != nil || got.Name != "agent-2.uid-2" || time.Since(began) != time.Second {
			o.Errorf("got %v, %v after %v", got, err, time.Since(began))
		}
	})
}

// Whoever leaves does not wait.
func TestCallerLeaves(t *testing.T) {
	inOffice(t, func(o *office) {
		ctx, cancel := context.WithTimeout(o.Context(), time.Second)
		defer cancel()
		o.answers(func(r *authenticationv1.TokenReview) error { time.Sleep(4 * time.Second); return o.good(r) })
		began := time.Now()
		_, err := o.callers.Resolve(ctx, token("agents", "agent-1", "uid-1", life, "a"), netip.Addr{})
		if err == nil || time.Since(began) != time.Second {
			o.Errorf("got %v after %v", err, time.Since(began))
		}
		after(5 * time.Second)
	})
}

func FuzzClaims(f *testing.F) {
	f.Add(token("agents", "agent-1", "uid-1", life, "a"))
	f.Add("a.e30.b")
	f.Fuzz(func(t *testing.T, token string) {
		c, err := readClaims(token, "code-sandbox-pool", time.Now())
		if err == nil && (c.namespace == "" || c.pod == "" || c.uid == "" || !time.Now().Before(c.expires)) {
			t.Errorf("%q is taken for %+v", token, c)
		}
	})
}
