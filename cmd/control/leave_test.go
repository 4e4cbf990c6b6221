package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
)

func leaving(t *testing.T) leaveOptions {
	t.Helper()
	o, err := parseLeave([]string{"--namespace=cs"})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// It scales the pool to none, and waits for the last of its pods; another's
// pods are not waited for. Then sandboxes of replicas that were killed go, and
// nothing else.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := func(name, component string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "cs",
				Labels: map[string]string{"app.kubernetes.io/name": "code-sandbox", "app.kubernetes.io/component": component}}}
		}
		runs := func(name, label string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "code-sandbox-runs", Labels: map[string]string{label: "python"}}}
		}
		kube := fake.NewClientset(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "code-sandbox-pool", Namespace: "cs"}},
			pod("pool", "pool"), pod("injector", "injector"), runs("orphan", "code-sandbox.dev/kind"), runs("other", "app"))
		time.AfterFunc(time.Minute, func() {
			if err := kube.CoreV1().Pods("cs").Delete(context.Background(), "pool", metav1.DeleteOptions{}); err != nil {
				panic(err)
			}
		})
		began := time.Now()
		if err := leave(t.Context(), kube, leaving(t), hclog.NewNullLogger()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Minute || took > 61*time.Second {
			t.Errorf("it took %s", took)
		}
		left, err := kube.CoreV1().Pods("code-sandbox-runs").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(left.Items) != 1 || left.Items[0].Name != "other" {
			t.Errorf("of the pods of runs there are %v: %v", left.Items, err)
		}
		scaled := false
		for _, a := range kube.Actions() {
			if p, ok := a.(clienttesting.PatchAction); ok {
				scaled = a.GetSubresource() == "scale" && string(p.GetPatch()) == `{"spec":{"replicas":0}}`
			}
		}
		if !scaled {
			t.Errorf("the pool was not scaled: %v", kube.Actions())
		}
	})
}

// Without a pool there is nothing to wait for; one that does not end is told of.
func TestLeaveEnds(t *testing.T) {
	if err := leave(t.Context(), fake.NewClientset(), leaving(t), hclog.NewNullLogger()); err != nil {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) {
		o := leaving(t)
		o.selector = "stays=yes"
		kube := fake.NewClientset(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "code-sandbox-pool", Namespace: "cs"}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "cs", Labels: map[string]string{"stays": "yes"}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := leave(ctx, kube, o, hclog.NewNullLogger()); err == nil || !strings.Contains(err.Error(), "it has 1 pods") {
			t.Errorf("the error is %v", err)
		}
	})
	if _, err := parseLeave(nil); !errors.Is(err, flags.ErrUsage) {
		t.Errorf("the error is %v", err)
	}
}
