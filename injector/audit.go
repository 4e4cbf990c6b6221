package injector

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// audit looks for pods of enrolled namespaces that have no sidecar: those that
// were there before, those that came while somebody had taken the webhook away.
type audit struct {
	kube    kubernetes.Interface
	every   time.Duration
	config  func() (Config, error)
	metrics *metrics
	events  events
	log     hclog.Logger
	// told are the pods that an Event was written for.
	told map[types.UID]bool
}

// auditPage bounds what one answer of the API server holds.
const auditPage = 200

// run audits until ctx ends. One replica does so at a time.
func (a *audit) run(ctx context.Context) {
	defer a.metrics.forget()
	tick := time.NewTicker(a.every)
	defer tick.Stop()
	for {
		err := a.once(ctx)
		if ctx.Err() != nil {
			return
		}
		a.metrics.audits.WithLabelValues(okOr(err)).Inc()
		if err != nil {
			a.log.Warn("cannot audit", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// once counts all pods anew. When it fails, the counts stay as they were.
func (a *audit) once(ctx context.Context) error {
	config, err := a.config()
	if err != nil {
		return err
	}
	namespaces, err := a.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: LabelEnabled + "=true"})
	if err != nil {
		return fmt.Errorf("cannot list the enrolled namespaces: %w", err)
	}
	found, told := map[Reason]int{}, map[types.UID]bool{}
	for _, ns := range namespaces.Items {
		err := a.pods(ctx, ns.Name, func(pod *corev1.Pod) {
			v, lacks := lacking(pod, &ns, config)
			if !lacks {
				return
			}
			found[v.Reason]++
			if told[pod.UID] = true; a.told[pod.UID] || kinds[v.Reason] != impossible {
				return
			}
			a.log.Warn("pod has no sidecar", "namespace", pod.Namespace, "pod", pod.Name, "reason", string(v.Reason), "message", v.Message)
			a.events.missing(pod, v)
		})
		if err != nil {
			return fmt.Errorf("cannot list the pods of %q: %w", ns.Name, err)
		}
	}
	a.told = told
	for _, r := range Reasons {
		a.metrics.audited.WithLabelValues(string(r)).Set(float64(found[r]))
	}
	return nil
}

func (a *audit) pods(ctx context.Context, namespace string, each func(*corev1.Pod)) error {
	o := metav1.ListOptions{Limit: auditPage}
	for {
		page, err := a.kube.CoreV1().Pods(namespace).List(ctx, o)
		if err != nil {
			return err
		}
		for i := range page.Items {
			each(&page.Items[i])
		}
		if o.Continue = page.Continue; o.Continue == "" {
			return nil
		}
	}
}

// lacking says whether a pod that lives should be told of, and why.
func lacking(pod *corev1.Pod, namespace *corev1.Namespace, c Config) (Verdict, bool) {
	over := pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if over || hasContainer(pod.Spec.InitContainers, SidecarName) {
		return Verdict{}, false
	}
	v := Decide(pod, namespace, c)
	switch {
	case v.Reason == "":
		return Verdict{Missed, "the pod was made before its namespace was enrolled, or the injector was not asked; make it anew"}, true
	case kinds[v.Reason] == expected:
		return v, false
	}
	return v, true
}

// forget sets the counts to nothing: another replica has them now.
func (m *metrics) forget() {
	for _, r := range Reasons {
		m.audited.WithLabelValues(string(r)).Set(0)
	}
}
