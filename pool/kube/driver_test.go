package kube

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func (w *world) start(d *Driver) *sandbox {
	w.Helper()
	s, err := d.Start(w.Context(), testTemplate())
	if err != nil {
		w.Fatal(err)
	}
	return s.(*sandbox)
}

// A sandbox starts, runs once, and is gone; the run itself asks the API server
// for nothing.
func TestLife(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		s := w.start(d)
		if got := w.conns[0].proof; !slices.Equal(got.Canaries, []string{"10.96.0.1:443"}) || !got.DNS || got.WithinMS != 10000 {
			w.Errorf("the proof asked for is %+v", got)
		}
		if len(w.secrets[0]) < 50 {
			w.Errorf("the secret %q is short", w.secrets[0])
		}
		w.kube.ClearActions()
		res, err := s.Run(w.Context(), &wire.Request{Code: "x"}, nil)
		if err != nil || res.Stdout != "hello\n" {
			w.Errorf("got %+v, %v", res, err)
		}
		if asked := w.requests(); len(asked) > 0 {
			w.Errorf("a run asked the API server: %v", asked)
		}
		if _, err := s.Run(w.Context(), &wire.Request{Code: "x"}, nil); err == nil {
			w.Error("it ran twice")
		}
		for range 2 { // idempotent
			if err := d.Destroy(w.Context(), s.ID()); err != nil {
				w.Error(err)
			}
		}
		if left := w.pods(); len(left) > 0 {
			w.Errorf("left: %v", left)
		}
	})
}

// Every way in which a start can fail has its word, says what is wrong, and
// leaves nothing.
func TestStartFails(t *testing.T) {
	waiting := func(container, reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: state}}
		}
	}
	f := func(reason string, code api.Code, took time.Duration, words string, set func(*world)) {
		t.Helper()
		inWorld(t, func(w *world, d *Driver) {
			t.Helper()
			set(w)
			began := time.Now()
			_, err := d.Start(w.Context(), testTemplate())
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Reason != reason || e.Code != code || e.Executed != api.No || !strings.Contains(e.Message, words) {
				w.Errorf("got %#v, want %q and %q", err, reason, words)
			}
			if got := time.Since(began); got != took {
				w.Errorf("%s: it took %v, want %v", reason, got, took)
			}
			synctest.Wait()
			if left := w.pods(); len(left) > 0 || len(d.roster.entries) > 0 {
				w.Errorf("left: %v, %d entries", left, len(d.roster.entries))
			}
			for _, c := range w.conns {
				if c.hangUp(); c.broken == nil {
					w.Error("a connection is open")
				}
			}
		})
	}
	refuse := func(err error) func(*world) {
		return func(w *world) {
			w.refuses("create", func(clienttesting.Action) error { return err })
		}
	}
	pods := schema.GroupResource{Resource: "pods"}
	// An image that cannot be had, of either container.
	f(reasonImage, api.NoCapacity, 0, testTemplate().Image, func(w *world) { w.schedule = waiting(containerName, "ErrImagePull", "404") })
	f(reasonImage, api.NoCapacity, 0, "ImagePullBackOff: back-off", func(w *world) {
		w.schedule = func(p *corev1.Pod) {
			waiting(installName, "ImagePullBackOff", "back-off")(p)
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses = p.Status.ContainerStatuses, nil
		}
	})
	f(reasonContainer, api.NoCapacity, 0, "no such user", func(w *world) {
		w.schedule = waiting(containerName, "CreateContainerConfigError", "no such user")
	})
	// The API server refuses, in its own words.
	f(reasonRefused, api.NoCapacity, 0, "exceeded quota: pods", refuse(apierrors.NewForbidden(pods, "x", errText("exceeded quota: pods"))))
	f(reasonRefused, api.NoCapacity, 0, "violates PodSecurity", refuse(apierrors.NewForbidden(pods, "x", errText("violates PodSecurity"))))
	// The chart's own policy refuses what is not what was made here.
	f(reasonMutated, api.Internal, 0, "and have limits", refuse(&apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, // as such a policy refuses
		Message: "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'code-sandbox-sandboxes' with binding 'code-sandbox-sandboxes' denied request: containers … and have limits",
	}}))
	// It fails, and it is not known whether there is a pod.
	f(reasonAPIServer, api.NoCapacity, 0, "etcd", refuse(apierrors.NewInternalError(errText("etcd"))))
	// Admission adds something.
	f(reasonMutated, api.Internal, 0, "spec.containers[proxy] was added", func(w *world) {
		w.schedule = func(p *corev1.Pod) {
			running1(p)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy"})
		}
	})
	// No node takes it, for longer than one may be on its way.
	f(reasonUnschedulable, api.NoCapacity, 15*time.Second+time.Millisecond, "0/3 nodes", func(w *world) {
		w.schedule = func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}
		}
	})
	// The network is open.
	f(reasonNetwork, api.Internal, 0, "networkProof", func(w *world) {
		w.runner = func() *fakeConn {
			return &fakeConn{fresh: func(context.Context, wire.Proof) (wire.Fresh, error) {
				return wire.Fresh{Open: []string{"10.96.0.1:443"}}, nil
			}}
		}
	})
	// The runner is not ready, or does not answer.
	f(reasonRunner, api.NoCapacity, 0, "no python3", func(w *world) {
		w.runner = func() *fakeConn {
			return &fakeConn{fresh: func(context.Context, wire.Proof) (wire.Fresh, error) {
				return wire.Fresh{Reason: "no python3"}, nil
			}}
		}
	})
	// It hangs up, and the pod's status comes later: out of memory.
	f(reasonLost, api.NoCapacity, time.Second, "more memory", func(w *world) {
		w.runner = func() *fakeConn {
			c := &fakeConn{}
			c.fresh = func(context.Context, wire.Proof) (wire.Fresh, error) {
				c.hangUp()
				name := w.pods()[0]
				time.AfterFunc(time.Second, func() { w.setStatus(name, outOfMemory) })
				return wire.Fresh{}, errHungUp
			}
			return c
		}
	})
}

type errText string

func (e errText) Error() string { return string(e) }

func outOfMemory(p *corev1.Pod) {
	p.Status.Phase = corev1.PodFailed
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137},
	}}}
}

// A caller that leaves while its pod starts leaves no pod.
func TestStartGivenUp(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		w.schedule = func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending } // no address, ever
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		if _, err := d.Start(ctx, testTemplate()); err == nil {
			w.Error("it started")
		}
		if left := w.pods(); len(left) > 0 || w.created != 1 {
			w.Errorf("left: %v of %d", left, w.created)
		}
	})
}

// What is watched: own pods from the first, and losses before the run; not
// pods of other replicas, and not what was destroyed.
func TestWatch(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		other, end := w.driver()
		defer end()
		old := w.start(d)
		w.start(other)
		events, err := d.Watch(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		f := func(want ...pool.Event) {
			t.Helper()
			synctest.Wait()
			for _, e := range want {
				select {
				case got := <-events:
					if got != e {
						w.Errorf("got %+v, want %+v", got, e)
					}
				default:
					w.Errorf("%+v is not reported", e)
				}
			}
			select {
			case got := <-events:
				w.Errorf("%+v is reported", got)
			default:
			}
		}
		f(pool.Event{ID: old.ID()})
		s := w.start(d)
		f(pool.Event{ID: s.ID()})
		// Its runner hangs up.
		w.conns[2].hangUp()
		f(pool.Event{ID: s.ID(), Gone: true, Cause: "its runner hung up before its run"})
		// Its pod is evicted.
		w.setStatus(old.ID(), func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "full"
		})
		f(pool.Event{ID: old.ID(), Gone: true, Cause: "The node ended the sandbox to help itself: full"})
		if err := d.Destroy(w.Context(), old.ID()); err != nil {
			w.Error(err)
		}
		f()
		// It has waited for its run for too long.
		third := w.start(d)
		f(pool.Event{ID: third.ID()})
		after(time.Hour)
		f(pool.Event{ID: third.ID(), Gone: true, Cause: "it has waited for its run for too long"})
	})
}
