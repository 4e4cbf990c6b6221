package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// goneBound is how long a deletion may take before it is asked for again:
	// the grace period, the kubelet, and a watch that lags.
	goneBound = 5 * time.Second
	// retryLeast and retryMost bound the pause after a refusal.
	retryLeast, retryMost = 100 * time.Millisecond, 5 * time.Second
)

// Destroy implements pool.Driver. It returns when the pod is gone from the
// cluster: nothing of it runs any more.
func (d *Driver) Destroy(ctx context.Context, id string) error {
	e := d.roster.get(id)
	if e == nil {
		return nil
	}
	s, uid := d.roster.doom(e)
	if s != nil {
		s.end() // the runner kills the run and ends, long before the kubelet would
	}
	return d.remove(ctx, e, uid)
}

// remove deletes the pod again and again until it is gone: an API server that
// refuses or fails for a while does not cost capacity for ever.
func (d *Driver) remove(ctx context.Context, e *entry, uid types.UID) error {
	pods := d.opts.Client.CoreV1().Pods(e.name.Namespace)
	var last error
	for pause := retryLeast; ; pause = min(2*pause, retryMost) {
		err := pods.Delete(ctx, e.name.Name, deleteOptions(uid))
		if apierrors.IsConflict(err) { // another pod has the name, or somebody changed ours in this moment
			if p, seeErr := pods.Get(ctx, e.name.Name, metav1.GetOptions{}); seeErr == nil && p.UID != uid || apierrors.IsNotFound(seeErr) {
				d.roster.forget(e)
				return nil
			}
		}
		bound := pause/2 + rand.N(pause)
		switch {
		case apierrors.IsNotFound(err):
			d.roster.forget(e)
			return nil
		case err == nil:
			last, bound = nil, goneBound
		case ctx.Err() == nil:
			last = err
			d.metrics.deleteFailures.Inc()
			d.log.Warn("cannot delete a pod yet", "sandbox", e.id, "retry_ms", bound.Milliseconds(), "error", err)
		}
		if d.roster.await(ctx, e, bound, func(v view) bool { return v.gone }) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("cannot destroy the sandbox %q: %w", e.id, errors.Join(context.Cause(ctx), last))
		}
	}
}

// deleteOptions delete the very pod that is meant. The grace period is the
// pod's own; a shorter one would only hide what still runs.
func deleteOptions(uid types.UID) metav1.DeleteOptions {
	if uid == "" {
		return metav1.DeleteOptions{} // its creation was never answered, but its name is ours alone
	}
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// insist goes on removing a pod in the background, until it is gone or Run ends.
func (d *Driver) insist(e *entry, uid types.UID) {
	select {
	case <-d.stop:
		return
	default:
	}
	d.work.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		d.work.Go(func() {
			select {
			case <-d.stop:
				cancel()
			case <-ctx.Done():
			}
		})
		if err := d.remove(ctx, e, uid); err != nil {
			d.log.Warn("sandbox left behind", "sandbox", e.id, "error", err)
		}
	})
}
