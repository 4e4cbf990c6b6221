package kube

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
)

// replicas keeps this replica's Lease, the sign that it lives, and destroys the
// pods of replicas whose sign has been missing for too long. Nothing of them is
// ever adopted: it may have run code.
type replicas struct {
	own       string
	duration  time.Duration
	leases    coordination.LeaseInterface
	pods      core.PodsGetter
	sandboxes func() []*corev1.Pod // of all replicas
	seen      *sightings
	metrics   *metrics
	log       hclog.Logger
	renewed   time.Time
}

func newReplicas(d *Driver) *replicas {
	return &replicas{
		own: d.replica, duration: d.opts.LeaseDuration,
		leases:    d.opts.Bookkeeping.CoordinationV1().Leases(d.opts.Pods.Namespace),
		pods:      d.opts.Bookkeeping.CoreV1(),
		sandboxes: d.sandboxes, seen: newSightings(d.opts.LeaseDuration),
		metrics: d.metrics, log: d.log.Named("replicas"),
	}
}

func (r *replicas) name() string { return "code-sandbox-" + r.own }

// join makes the Lease, before the first pod. It tries until ctx ends.
func (r *replicas) join(ctx context.Context) error {
	for pause := retryLeast; ; pause = min(2*pause, retryMost) {
		err := r.create(ctx)
		if err == nil {
			return nil
		}
		r.log.Warn("cannot make the lease of this replica yet", "retry_ms", pause.Milliseconds(), "error", err)
		if !sleep(ctx, pause) {
			return fmt.Errorf("cannot make the lease of this replica: %w", err)
		}
	}
}

func (r *replicas) create(ctx context.Context) error {
	now := metav1.NowMicro()
	_, err := r.leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: r.name(), Labels: map[string]string{
			"app.kubernetes.io/managed-by": "code-sandbox", LabelComponent: ComponentPool, LabelReplica: r.own,
		}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &r.own, LeaseDurationSeconds: new(int32(r.duration / time.Second)), AcquireTime: &now, RenewTime: &now,
		},
	}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) { // an earlier try that was not answered
		r.renewed = time.Now()
		return nil
	}
	return err
}

// keep renews the Lease and looks after the others until ctx ends; then the
// Lease is given up.
func (r *replicas) keep(ctx context.Context) {
	renew := time.NewTicker(r.duration / 3)
	defer renew.Stop()
	// Not in step with the others, who look for the same orphans.
	look := time.NewTimer(rand.N(r.duration / 2))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			r.leave(ctx)
			return
		case <-renew.C:
			r.renew(ctx)
		case <-look.C:
			r.reap(ctx)
			look.Reset(r.duration/4 + rand.N(r.duration/4))
		}
	}
}

// renew writes the sign of life. Lost or taken away, it is made anew: what was
// destroyed meanwhile the watch reports, and what is started from now on lives.
func (r *replicas) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.duration/3)
	defer cancel()
	patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := r.leases.Patch(ctx, r.name(), types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		r.log.Warn("the lease of this replica was removed", "silent_ms", time.Since(r.renewed).Milliseconds())
		err = r.create(ctx)
	}
	if err != nil {
		r.metrics.renewFailures.Inc()
		r.log.Warn("cannot renew the lease of this replica", "silent_ms", time.Since(r.renewed).Milliseconds(), "error", err)
		return
	}
	r.renewed = time.Now()
}

// reap destroys what dead replicas have left.
func (r *replicas) reap(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.duration)
	defer cancel()
	list, err := r.leases.List(ctx, metav1.ListOptions{LabelSelector: LabelReplica})
	if err != nil {
		r.log.Warn("cannot list the leases of replicas", "error", err)
		return
	}
	orphans, stale := r.seen.look(r.sandboxes(), list.Items, r.own, time.Now())
	// In an order of our own: several replicas may be at it.
	rand.Shuffle(len(orphans), func(i, j int) { orphans[i], orphans[j] = orphans[j], orphans[i] })
	for _, p := range orphans {
		r.destroy(ctx, p)
	}
	for _, l := range stale {
		err := r.leases.Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &l.UID, ResourceVersion: &l.ResourceVersion, // it may have come back in this moment
		}})
		if err == nil {
			r.log.Info("lease of a dead replica removed", "replica", l.Labels[LabelReplica])
		}
	}
}

func (r *replicas) destroy(ctx context.Context, p *corev1.Pod) {
	err := r.pods.Pods(p.Namespace).Delete(ctx, p.Name, deleteOptions(p.UID))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another replica was quicker
	case err != nil:
		r.log.Warn("cannot destroy an orphan yet", "sandbox", p.Name, "replica", p.Labels[LabelReplica], "error", err)
	default:
		r.metrics.orphans.Inc()
		r.log.Info("orphan destroyed", "sandbox", p.Name, "replica", p.Labels[LabelReplica])
	}
}

// leave gives the Lease up: what is left of this replica, if anything, is an
// orphan from now on.
func (r *replicas) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := r.leases.Delete(ctx, r.name(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		r.log.Warn("cannot give the lease of this replica up; it ends by itself", "error", err)
	}
}

// sleep says whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
