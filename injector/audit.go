package injector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// audit looks for pods of enrolled namespaces that have no sidecar of ours: those
// that were there before, those that came while somebody had taken the webhook away.
type audit struct {
	kube    kubernetes.Interface
	every   time.Duration
	config  func() (Config, error)
	metrics *metrics
	events  events
	log     hclog.Logger
	// last are what was found in each namespace, the last time that it was read.
	last map[string]finding
}

// finding is what was found in a namespace.
type finding struct {
	lacking map[Reason]int
	without int // pods that require the hook and run without it
	// told are the pods that an Event was written for.
	told map[types.UID]bool
}

const (
	// auditPage bounds what one answer of the API server holds.
	auditPage = 200
	// auditBound is what a namespace may take: one that hangs must not keep the
	// others from being looked at.
	auditBound = time.Minute
)

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
		if err == nil {
			a.metrics.auditedAt.SetToCurrentTime()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// once counts the pods of each namespace anew. One that cannot be read keeps the
// counts that it had, and keeps none of the others from theirs.
func (a *audit) once(ctx context.Context) error {
	config, err := a.config()
	if err != nil {
		return a.failed(ctx, failAuthority, fmt.Errorf("cannot audit: %w", err))
	}
	listing, cancel := context.WithTimeout(ctx, auditBound)
	defer cancel()
	namespaces, err := a.kube.CoreV1().Namespaces().List(listing, metav1.ListOptions{LabelSelector: LabelEnabled + "=true"})
	if err != nil {
		return a.failed(ctx, failNamespaces, fmt.Errorf("cannot list the enrolled namespaces: %w", err))
	}
	found := map[string]finding{}
	var errs []error
	for _, ns := range namespaces.Items {
		f, err := a.namespace(ctx, &ns, config)
		if err != nil {
			errs = append(errs, a.failed(ctx, failPods, fmt.Errorf("cannot audit the namespace %q: %w", ns.Name, err)))
			f = a.last[ns.Name]
		}
		found[ns.Name] = f
	}
	a.last = found
	a.count()
	return errors.Join(errs...)
}

func (a *audit) failed(ctx context.Context, cause string, err error) error {
	if ctx.Err() == nil {
		a.metrics.auditFailures.WithLabelValues(cause).Inc()
		a.log.Warn("audit failed", "cause", cause, "error", err)
	}
	return err
}

// namespace looks at the pods of one, under the policy of this moment.
func (a *audit) namespace(ctx context.Context, ns *corev1.Namespace, config Config) (finding, error) {
	ctx, cancel := context.WithTimeout(ctx, auditBound)
	defer cancel()
	f, before := finding{lacking: map[Reason]int{}, told: map[types.UID]bool{}}, a.last[ns.Name].told
	policy, err := a.kube.CoreV1().ConfigMaps(ns.Name).Get(ctx, PolicyMap, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return f, fmt.Errorf("cannot read its policy: %w", err)
	}
	if err == nil {
		ns = withPolicy(ns, policy.Data)
	}
	err = a.pods(ctx, ns.Name, func(pod *corev1.Pod) {
		now := time.Now()
		a.condition(ctx, pod, now)
		found := inspect(pod, ns, config, now)
		f.add(found)
		if !found.tells() {
			return
		}
		if f.told[pod.UID] = true; !before[pod.UID] {
			a.tell(pod, found)
		}
	})
	if err != nil {
		return f, fmt.Errorf("cannot list its pods: %w", err)
	}
	return f, nil
}

// inspected is what is wrong with a pod.
type inspected struct {
	hookless bool
	lacks    Verdict // without a Reason nothing
}

func inspect(pod *corev1.Pod, namespace *corev1.Namespace, c Config, now time.Time) inspected {
	return inspected{hookless: hookless(pod, now), lacks: lacking(pod, namespace, c)}
}

// unwanted says whether the pod lacks its sidecar by nobody's choice.
func (i inspected) unwanted() bool {
	return kinds[i.lacks.Reason] == impossible || i.lacks.Reason == ForeignSidecar
}

// tells says whether anything is told of the pod.
func (i inspected) tells() bool { return i.hookless || i.unwanted() }

func (f *finding) add(i inspected) {
	if i.hookless {
		f.without++
	}
	if i.lacks.Reason != "" {
		f.lacking[i.lacks.Reason]++
	}
}

// tell writes what is wrong with a pod where people look.
func (a *audit) tell(pod *corev1.Pod, found inspected) {
	if found.hookless {
		a.log.Warn("pod has not loaded the hook that it requires", "namespace", pod.Namespace, "pod", pod.Name)
		a.events.unheard(pod)
	}
	if v := found.lacks; found.unwanted() {
		a.log.Warn("pod has no sidecar of ours", "namespace", pod.Namespace, "pod", pod.Name, "reason", string(v.Reason), "message", v.Message)
		a.events.missing(pod, v)
	}
}

// count shows what all namespaces have together.
func (a *audit) count() {
	lacking, without := map[Reason]int{}, 0
	for _, f := range a.last {
		without += f.without
		for r, n := range f.lacking {
			lacking[r] += n
		}
	}
	for _, r := range Reasons {
		a.metrics.audited.WithLabelValues(string(r)).Set(float64(lacking[r]))
	}
	a.metrics.hookless.Set(float64(without))
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

// lacking says why a pod that lives should be told of, if it should. A sidecar is
// judged as at admission, except that it may be of an earlier day.
func lacking(pod *corev1.Pod, namespace *corev1.Namespace, c Config) Verdict {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return Verdict{}
	}
	if claims(pod) {
		return sidecarOf(pod, namespace, c)
	}
	v, _, _ := judge(pod, namespace, c)
	switch {
	case v.Reason == "":
		return Verdict{Missed, "the pod was made before its namespace was enrolled, or the injector was not asked; make it anew"}
	case kinds[v.Reason] == expected:
		return Verdict{}
	}
	return v
}

// sidecarOf says what is wrong with the sidecar of a pod that lives, if anything.
func sidecarOf(pod *corev1.Pod, namespace *corev1.Namespace, c Config) Verdict {
	what := possible(pod, c).Message
	policy, _, err := Resolve(c.Defaults, namespace.Annotations, pod.Annotations)
	switch {
	case what != "":
	case err != nil:
		what = err.Error()
	default:
		what = (maker{config: c, policy: policy}).differs(pod)
	}
	switch {
	case what == "":
		return Verdict{}
	case outdated(pod, c):
		return Verdict{Outdated, "the pod was injected by another version, or under a policy or settings that have changed since; make it anew"}
	}
	return foreign(pod, what)
}

// forget sets the counts to nothing: another replica has them now.
func (m *metrics) forget() {
	m.hookless.Set(0)
	for _, r := range Reasons {
		m.audited.WithLabelValues(string(r)).Set(0)
	}
}
