//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/code-sandbox/code-sandbox/test/cluster"
)

const (
	// Patience bounds a wait for something that takes a second or two when the
	// machine does nothing else.
	Patience = 60 * time.Second
	// cleanTimeout bounds the removal of a namespace.
	cleanTimeout = 60 * time.Second
)

// Space is a namespace of a test's own, and the clients to use it with.
type Space struct {
	T      testing.TB
	Name   string
	Kube   kubernetes.Interface
	Config *rest.Config
	Bed    cluster.State
}

// An Option changes the namespace before it is made.
type Option func(*corev1.Namespace)

// Labels adds labels to the namespace, for example to choose a policy of Pod
// Security.
func Labels(labels map[string]string) Option {
	return func(ns *corev1.Namespace) {
		for k, v := range labels {
			ns.Labels[k] = v
		}
	}
}

// NewSpace makes a namespace for the test. It is removed when the test ends;
// if the test failed, first everything in it is told to the test's log.
func NewSpace(t testing.TB, options ...Option) *Space {
	t.Helper()
	s := connect(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: nameFor(t.Name()), Labels: map[string]string{"e2e": "yes"}}}
	for _, o := range options {
		o(ns)
	}
	ns, err := s.Kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("cannot make a namespace: %v", err)
	}
	s.Name = ns.Name
	t.Cleanup(s.close)
	s.waitForAccount()
	return s
}

// OpenSpace is a namespace that is there already, and stays. It is made when
// it is not.
func OpenSpace(t testing.TB, name string, options ...Option) *Space {
	t.Helper()
	s := connect(t)
	s.Name = name
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"e2e": "yes"}}}
	for _, o := range options {
		o(ns)
	}
	if _, err := s.Kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("cannot make the namespace %q: %v", name, err)
	}
	s.waitForAccount()
	return s
}

// connect finds the cluster and makes its clients.
func connect(t testing.TB) *Space {
	t.Helper()
	s := &Space{T: t, Bed: bed(t)}
	var err error
	if s.Config, err = clientcmd.BuildConfigFromFlags("", s.Bed.Kubeconfig); err != nil {
		t.Fatalf("cannot read the kubeconfig: %v", err)
	}
	s.Config.QPS, s.Config.Burst = 200, 400
	if s.Kube, err = kubernetes.NewForConfig(s.Config); err != nil {
		t.Fatalf("cannot make a client: %v", err)
	}
	return s
}

// bed finds the running cluster.
func bed(t testing.TB) cluster.State {
	t.Helper()
	if work := os.Getenv("CODE_SANDBOX_BED_WORK"); work != "" {
		s, err := cluster.ReadState(work)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	b, err := cluster.New(cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.State()
	if err != nil {
		t.Fatalf("there is no cluster; start one with \"make cluster-up\": %v", err)
	}
	return s
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func nameFor(test string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(test), "-"), "-")
	return name[:min(len(name), 40)] + "-"
}

func (s *Space) close() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.T.Context()), cleanTimeout)
	defer cancel()
	if s.T.Failed() {
		s.dump(ctx)
	}
	now := int64(0)
	err := s.Kube.CoreV1().Namespaces().Delete(ctx, s.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		s.T.Errorf("cannot remove the namespace: %v", err)
	}
}

// waitForAccount waits for what no pod starts without.
func (s *Space) waitForAccount() {
	s.T.Helper()
	s.Eventually("the namespace has its service account", func(ctx context.Context) error {
		_, err := s.Kube.CoreV1().ServiceAccounts(s.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Eventually calls check until it returns nil, and fails the test when that
// takes longer than Patience.
func (s *Space) Eventually(what string, check func(context.Context) error) {
	s.T.Helper()
	if err := Within(s.T.Context(), Patience, check); err != nil {
		s.T.Fatalf("not within %s: %s: %v", Patience, what, err)
	}
}

// Within calls check until it returns nil or the time is over; then it returns
// the last error.
func Within(ctx context.Context, atMost time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// HTTP is a client that reaches every address and every service name of the
// cluster.
func (s *Space) HTTP() *http.Client {
	proxy := &url.URL{Scheme: "socks5h", Host: s.Bed.Socks}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}
	return &http.Client{Timeout: 10 * time.Second, Transport: transport}
}

// Image is how pods name an image of the bed: by digest.
func (s *Space) Image(name string) string {
	s.T.Helper()
	ref, ok := s.Bed.Images[name]
	if !ok {
		s.T.Fatalf("the bed has no image %q, it has %s", name, fmt.Sprint(s.Bed.Images))
	}
	return ref
}
