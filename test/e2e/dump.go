//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// dump tells the test's log what there is to know of a failure: the events,
// the pods with their status, and the last of what each container printed.
func (s *Space) dump(ctx context.Context) {
	s.T.Helper()
	events, err := s.Kube.CoreV1().Events(s.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		s.T.Logf("cannot list the events: %v", err)
	} else {
		s.T.Log("events of " + s.Name + ":\n" + eventLines(events.Items))
	}
	pods, err := s.Kube.CoreV1().Pods(s.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		s.T.Logf("cannot list the pods: %v", err)
		return
	}
	for _, p := range pods.Items {
		p.ManagedFields = nil
		text, err := yaml.Marshal(p)
		if err != nil {
			text = []byte(err.Error())
		}
		s.T.Logf("pod %s:\n%s", p.Name, text)
		for _, c := range append(slices.Clone(p.Spec.InitContainers), p.Spec.Containers...) {
			said, err := s.log(ctx, p.Name, c.Name)
			if err != nil {
				said = err.Error()
			}
			s.T.Logf("log of %s/%s:\n%s", p.Name, c.Name, said)
		}
	}
}

func eventLines(events []corev1.Event) string {
	slices.SortFunc(events, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	var text strings.Builder
	for _, e := range events {
		fmt.Fprintf(&text, "%s %s %s/%s %s: %s\n", e.LastTimestamp.Format("15:04:05"), e.Type,
			strings.ToLower(e.InvolvedObject.Kind), e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return text.String()
}
