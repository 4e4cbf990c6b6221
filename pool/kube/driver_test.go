package kube

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		if got := w.conns[0].proof; !slices.Equal(got.Canaries, []string{"10.96.0.1:443"}) || !got.DNS || got.WithinMS != 5000 {
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
			e, ok := err.(*api.Error) //nolint:errorlint // callers see it as it is
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

// A run whose connection breaks is named by its pod's status, with what it had
// written; nothing that may have run is called not run.
func TestRunIsLost(t *testing.T) {
	f := func(sent bool, after time.Duration, status func(*corev1.Pod), outcome wire.Outcome, words string, took time.Duration) {
		t.Helper()
		inWorld(t, func(w *world, d *Driver) {
			t.Helper()
			w.runner = func() *fakeConn {
				return &fakeConn{run: func(_ context.Context, _ *wire.Request, sink wire.Sink) (*wire.Result, error) {
					e := api.Errorf(api.SandboxLost, "the connection ended")
					if sent {
						sink(wire.Stdout, "half")
						e = e.MaybeRan()
					}
					if status != nil {
						name := w.pods()[0]
						time.AfterFunc(after, func() { w.setStatus(name, status) })
					}
					return nil, e
				}}
			}
			s := w.start(d)
			began := time.Now()
			res, err := s.Run(w.Context(), &wire.Request{}, nil)
			if got := time.Since(began); got != took {
				w.Errorf("it took %v, want %v", got, took)
			}
			if outcome != "" {
				if err != nil || res.Outcome != outcome || !strings.Contains(res.Reason, words) || res.Stdout != "half" || res.StdoutBytes != 4 || res.ExitCode != 137 {
					w.Errorf("got %+v, %v; want %q", res, err, outcome)
				}
				return
			}
			e, ok := err.(*api.Error) //nolint:errorlint // callers see it as it is
			if !ok || e.Code != api.SandboxLost || (e.Executed == api.No) == sent || !strings.Contains(e.Message, words) {
				w.Errorf("got %#v, want %q", err, words)
			}
		})
	}
	failed := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, reason, message
		}
	}
	f(true, time.Second, outOfMemory, wire.OutOfMemory, "more memory", time.Second)
	f(true, 0, failed("Evicted", "The node was low on resource: memory."), wire.Evicted, "low on resource", 0)
	f(true, 0, failed("Evicted", `Usage of EmptyDir volume "scratch" exceeds the limit "256Mi".`), wire.DiskFull, "scratch", 0)
	f(true, 0, failed("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 64Mi."), wire.DiskFull, "64Mi", 0)
	f(true, 0, failed("DeadlineExceeded", ""), wire.Timeout, "deadline", 0)
	f(true, 0, failed("Terminated", "Pod was terminated in response to imminent node shutdown."), wire.NodeLost, "shutdown", 0)
	f(true, 0, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"}}
	}, wire.NodeLost, "DeletionByTaintManager", 0)
	f(true, 0, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "drained"}}
	}, wire.Evicted, "drained", 0)
	// A node that stopped reporting.
	f(true, 0, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}, wire.NodeLost, "stopped reporting", 0)
	// The runner ended by itself, which nobody explains.
	f(true, 0, func(p *corev1.Pod) {
		outOfMemory(p)
		p.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 2}
	}, "", "exit code 2", 0)
	// The status tells nothing: it is waited for, but not for long.
	f(true, 0, nil, "", "connection ended", 2*time.Second)
	// Nothing was sent: whatever became of the pod, nothing ran.
	f(false, 0, outOfMemory, "", "more memory", 0)
}

// A program killed by the kernel for its memory is told so when only the pod's
// status knows.
func TestKilledForMemory(t *testing.T) {
	f := func(status func(*corev1.Pod), want wire.Outcome) {
		t.Helper()
		inWorld(t, func(w *world, d *Driver) {
			w.runner = func() *fakeConn {
				return &fakeConn{run: func(context.Context, *wire.Request, wire.Sink) (*wire.Result, error) {
					name := w.pods()[0]
					time.AfterFunc(time.Second, func() { w.setStatus(name, status) })
					return &wire.Result{Outcome: wire.Killed, ExitCode: 137, Reason: "killed"}, nil
				}}
			}
			res, err := w.start(d).Run(w.Context(), &wire.Request{}, nil)
			if err != nil || res.Outcome != want {
				w.Errorf("got %+v, %v", res, err)
			}
		})
	}
	f(outOfMemory, wire.OutOfMemory)
	f(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, wire.Killed)
}

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

// What is watched: own pods from the first, and losses before the run; not
// pods of other replicas, and not what was destroyed.
func TestWatch(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		other, end := w.driver(nil)
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
