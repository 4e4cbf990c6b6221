package injector

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseName is of the Lease that says which replica audits.
const leaseName = "code-sandbox-injector"

// lead runs work while this replica is the one that does, again and again until
// ctx ends. Admissions are everybody's; only the audit is one replica's.
func (i *Injector) lead(ctx context.Context, work func(context.Context)) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Name: leaseName, Namespace: i.o.Config.Namespace}, Client: i.o.Kube.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: i.o.Identity},
	}
	var one sync.Mutex
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 4 * time.Second,
			Callbacks: leaderelection.LeaderCallbacks{
				// It is called on a goroutine of its own: an earlier one may still be at it.
				OnStartedLeading: func(ctx context.Context) {
					one.Lock()
					defer one.Unlock()
					work(ctx)
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			panic("BUG: an election that cannot be held: " + err.Error())
		}
		elector.Run(ctx)
	}
	one.Lock() // nothing of it goes on when this returns
	defer one.Unlock()
}
