package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

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

// A pod that ends without closing its connection does not keep its run waiting.
func TestSilentEnd(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		w.runner = func() *fakeConn {
			c := &fakeConn{}
			c.run = func(context.Context, *wire.Request, wire.Sink) (*wire.Result, error) {
				<-c.broken
				return nil, api.Errorf(api.SandboxLost, "the connection ended").MaybeRan()
			}
			return c
		}
		s := w.start(d)
		time.AfterFunc(10*time.Second, func() { w.setStatus(s.ID(), outOfMemory) })
		began := time.Now()
		res, err := s.Run(w.Context(), &wire.Request{}, nil)
		if took := time.Since(began); err != nil || res.Outcome != wire.OutOfMemory || took != 11*time.Second {
			w.Errorf("got %+v, %v after %v", res, err, took)
		}
	})
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
