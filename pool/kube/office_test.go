package kube

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/netip"
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
		o.pod("agent-1", "uid-1", nil)
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

func (o *office) pod(name, uid string, change func(*corev1.Pod)) {
	o.Helper()
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID, p.Spec.ServiceAccountName = "agents", name, types.UID(uid), "default"
	p.Status.Phase = corev1.PodRunning
	if change != nil {
		change(p)
	}
	pods := o.kube.CoreV1().Pods(p.Namespace)
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
	o.wantFrom(netip.Addr{}, token, code, words, questions)
}

func (o *office) wantFrom(from netip.Addr, token string, code api.Code, words string, questions int) {
	o.Helper()
	before := o.questions()
	got, err := o.callers.Resolve(o.Context(), token, from)
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
