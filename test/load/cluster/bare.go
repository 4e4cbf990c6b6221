package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// restful waits in the place of the runner, and ends when it is told to, as
// soon as the runner would.
var restful = []string{"python3", "-c", "import signal; signal.sigwait([signal.SIGTERM])"}

// barePod is a pod of the same spec as the sandboxes that are there, its main
// container apart, which does nothing.
func (p *Platform) barePod(ctx context.Context) (*corev1.Pod, error) {
	list, err := p.kube.CoreV1().Pods(runsSpace).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return nil, fmt.Errorf("cannot find a sandbox to compare with: %w", err)
	}
	return plain(list.Items[0].Spec), nil
}

// plain is the pod of a sandbox whose main container does nothing.
func plain(spec corev1.PodSpec) *corev1.Pod {
	pod := &corev1.Pod{Spec: *spec.DeepCopy()}
	pod.Namespace, pod.Labels = bareSpace, map[string]string{"load": "bare"}
	// What admission or the scheduler wrote, and what only the other namespace has.
	pod.Spec.NodeName, pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = "", "default", ""
	pod.Spec.Containers[0].Command = restful
	return pod
}

// bareLife makes a pod, waits until it is ready, deletes it, and waits until it
// is gone.
func (p *Platform) bareLife(ctx context.Context, like *corev1.Pod, name string) (life, error) {
	pod := like.DeepCopy()
	pod.Name = name
	pods := p.kube.CoreV1().Pods(bareSpace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return life{}, fmt.Errorf("cannot make a plain pod: %w", err)
	}
	if _, err := p.bare.wait(ctx, name, func(l life) bool { return !l.ready.IsZero() }); err != nil {
		return life{}, err
	}
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return life{}, fmt.Errorf("cannot delete a plain pod: %w", err)
	}
	return p.bare.wait(ctx, name, func(l life) bool { return !l.gone.IsZero() })
}

// bareName is never used twice.
func bareName(i int) string { return fmt.Sprintf("bare-%d-%d", time.Now().UnixNano(), i) }
