package kube

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
)

// office is an API server that knows tokens, and a Callers that asks it.
type office struct {
	*testing.T
	kube    *fake.Clientset
	callers *Callers

	mu     sync.Mutex
	asked  int
	answer func(*authenticationv1.TokenReview) error
}

func inOffice(t *testing.T, test func(o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &office{T: t, kube: fake.NewClientset()}
		o.answer = o.good
		o.kube.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			o.mu.Lock()
			o.asked++
			answer := o.answer
			o.mu.Unlock()
			r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
			return true, r, answer(r)
		})
		o.namespace("agents", true)
		o.namespace("others", false)
		o.pod("agents", "agent-1", "uid-1", nil)
		var err error
		if o.callers, err = NewCallers(CallersOptions{Client: o.kube}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- o.callers.Run(ctx) }()
		<-o.callers.ready
		after(time.Second)
		test(o)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (o *office) namespace(name string, enabled bool) {
	o.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if enabled {
		ns.Labels[LabelEnabled] = "true"
	}
	if _, err := o.kube.CoreV1().Namespaces().Create(o.Context(), ns, metav1.CreateOptions{}); err != nil {
		o.Fatal(err)
	}
}

func (o *office) pod(namespace, name, uid string, change func(*corev1.Pod)) {
	o.Helper()
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID, p.Spec.ServiceAccountName = namespace, name, types.UID(uid), "default"
	p.Status.Phase = corev1.PodRunning
	if change != nil {
		change(p)
	}
	pods := o.kube.CoreV1().Pods(namespace)
	if _, err := pods.Get(o.Context(), name, metav1.GetOptions{}); err == nil {
		if _, err := pods.Update(o.Context(), p, metav1.UpdateOptions{}); err != nil {
			o.Fatal(err)
		}
		return
	}
	if _, err := pods.Create(o.Context(), p, metav1.CreateOptions{}); err != nil {
		o.Fatal(err)
	}
}

// good bears out what the token says.
func (o *office) good(r *authenticationv1.TokenReview) error {
	said, err := readClaims(r.Spec.Token, "code-sandbox-pool", time.Unix(0, 0))
	if err != nil {
		o.Errorf("a token that cannot be good is verified: %v", err)
	}
	r.Status = authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: r.Spec.Audiences,
		User: authenticationv1.UserInfo{
			Username: "system:serviceaccount:" + said.namespace + ":" + said.account,
			Extra:    map[string]authenticationv1.ExtraValue{extraPodName: {said.pod}, extraPodUID: {said.uid}},
		},
	}
	return nil
}

func (o *office) answers(answer func(*authenticationv1.TokenReview) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = answer
}

func (o *office) questions() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

// token makes one that says of itself what it is told, with a signature that
// nobody checks here.
func token(namespace, pod, uid string, life time.Duration, mark string, more ...string) string {
	claims := map[string]any{
		"aud": []string{"code-sandbox-pool"}, "exp": time.Now().Add(life).Unix(),
		"kubernetes.io": map[string]any{
			"namespace": namespace, "pod": map[string]string{"name": pod, "uid": uid},
			"serviceaccount": map[string]string{"name": "default"},
		},
	}
	for i := 0; i < len(more); i += 2 {
		claims[more[i]] = json.RawMessage(more[i+1])
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(raw) + "." + mark
}

const life = 10 * time.Minute

// want resolves the token and compares what comes of it.
func (o *office) want(token string, code api.Code, words string, questions int) {
	o.Helper()
	before := o.questions()
	got, err := o.callers.Resolve(o.Context(), token)
	if n := o.questions() - before; n != questions {
		o.Errorf("the API server was asked %d times, want %d", n, questions)
	}
	if code == "" {
		if err != nil || got != (pool.Caller{Tenant: "agents", Name: "agent-1.uid-1"}) {
			o.Errorf("got %v, %v", got, err)
		}
		return
	}
	e, ok := err.(*api.Error) //nolint:errorlint // callers see it as it is
	if !ok || e.Code != code || e.Executed != api.No || !strings.Contains(e.Message, words) {
		o.Errorf("got %v, %v; want %q, %q", got, err, code, words)
	}
}

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
		o.pod("agents", "agent-1", "uid-1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		after(time.Millisecond)
		o.want(good, api.Unauthenticated, "is ending", 0)
		// Another takes its name: a StatefulSet's, for example.
		o.pod("agents", "agent-1", "uid-2", nil)
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
				_, err := o.callers.Resolve(o.Context(), token("agents", "agent-1", "uid-1", life, fmt.Sprint(i)))
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
				if _, err := o.callers.Resolve(o.Context(), good); err != nil {
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
		time.AfterFunc(time.Second, func() { o.pod("agents", "agent-2", "uid-2", nil) })
		began := time.Now()
		got, err := o.callers.Resolve(o.Context(), token("agents", "agent-2", "uid-2", life, "a"))
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
		_, err := o.callers.Resolve(ctx, token("agents", "agent-1", "uid-1", life, "a"))
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
