package main

import (
	"context"
	"errors"
	"maps"
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
		kube := fake.NewClientset(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "code-sandbox-pool", Namespace: "cs"}},
			pod("pool", "pool"), pod("injector", "injector"))
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
		scaled, swept := false, map[string]string{}
		for _, a := range kube.Actions() {
			switch a := a.(type) {
			case clienttesting.PatchAction:
				scaled = a.GetSubresource() == "scale" && string(a.GetPatch()) == `{"spec":{"replicas":0}}`
			case clienttesting.DeleteCollectionAction: // a list has the same methods
				if a.GetVerb() != "delete-collection" {
					continue
				}
				swept[a.GetNamespace()+"/"+a.GetResource().Resource] = a.GetListRestrictions().Labels.String()
			}
		}
		want := map[string]string{"code-sandbox-runs/pods": "code-sandbox.dev/kind", "code-sandbox-runs/leases": "code-sandbox.dev/replica"}
		if !maps.Equal(swept, want) {
			t.Errorf("what is swept is %v", swept)
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
