package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// An API server that fails, is busy or refuses for a while does not keep a pod
// alive for ever.
func TestDestroyIsRetried(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	f := func(failures ...error) {
		t.Helper()
		inWorld(t, func(w *world, d *Driver) {
			s := w.start(d)
			tries := 0
			w.refuses("delete", func(a clienttesting.Action) error {
				if got := a.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions; got == nil || string(*got.UID) != "uid-"+s.ID() {
					w.Errorf("the precondition is %+v", got)
				}
				tries++
				w.ignore = tries <= len(failures)
				if w.ignore {
					return failures[tries-1]
				}
				return nil
			})
			if err := d.Destroy(w.Context(), s.ID()); err != nil || len(w.pods()) > 0 || tries != len(failures)+1 {
				w.Errorf("got %v after %d tries, left %v", err, tries, w.pods())
			}
			select {
			case <-w.conns[0].broken:
			default:
				w.Error("the connection is open")
			}
		})
	}
	f(apierrors.NewInternalError(errText("etcd")), apierrors.NewTooManyRequestsError("slow down"))
	f(apierrors.NewConflict(pods, "x", errText("changed")), apierrors.NewForbidden(pods, "x", errText("webhook")))
	// Carried out by nobody: asked for again.
	f(nil, nil)
}

// A destruction that cannot be done in time says why, and can be tried again.
func TestDestroyInVain(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		s := w.start(d)
		w.refuses("delete", func(clienttesting.Action) error { return apierrors.NewInternalError(errText("etcd is away")) })
		ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
		defer cancel()
		if err := d.Destroy(ctx, s.ID()); err == nil || !strings.Contains(err.Error(), "etcd is away") {
			w.Errorf("got %v", err)
		}
		w.refuses("delete", nil)
		if err := d.Destroy(w.Context(), s.ID()); err != nil || len(w.pods()) > 0 {
			w.Errorf("got %v, left %v", err, w.pods())
		}
	})
}

// A failed start whose pod cannot be deleted is deleted later.
func TestUndoneLater(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		w.refuses("delete", func(clienttesting.Action) error { return apierrors.NewInternalError(errText("etcd is away")) })
		w.runner = func() *fakeConn {
			return &fakeConn{fresh: func(context.Context, wire.Proof) (wire.Fresh, error) { return wire.Fresh{}, errHungUp }}
		}
		began := time.Now()
		if _, err := d.Start(w.Context(), testTemplate()); err == nil {
			w.Error("it started")
		}
		if took := time.Since(began); took > undoBound+time.Second || len(w.pods()) != 1 {
			w.Errorf("it took %v, pods %v", took, w.pods())
		}
		w.refuses("delete", nil)
		after(retryMost * 2)
		if left := w.pods(); len(left) > 0 {
			w.Errorf("left: %v", left)
		}
	})
}
