//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// Pod is a pod as the policy "restricted" of Pod Security wants it, with one
// container. A test changes what it is about before it creates it.
func (s *Space) Pod(name, image string, command ...string) *corev1.Pod {
	s.T.Helper()
	no, yes := false, true
	now, user := int64(0), int64(65532)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &now,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "main", Image: s.Image(image), Args: command,
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("1m"), "memory": resource.MustParse("16Mi")},
					Limits:   corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("128Mi")}},
			}},
		},
	}
}

// Create makes the pods, in the space's namespace.
func (s *Space) Create(pods ...*corev1.Pod) {
	s.T.Helper()
	for _, p := range pods {
		if _, err := s.Kube.CoreV1().Pods(s.Name).Create(s.T.Context(), p, metav1.CreateOptions{}); err != nil {
			s.T.Fatalf("cannot create the pod %q: %v", p.Name, err)
		}
	}
}

// Get reads a pod as it is now.
func (s *Space) Get(name string) *corev1.Pod {
	s.T.Helper()
	p, err := s.Kube.CoreV1().Pods(s.Name).Get(s.T.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.T.Fatalf("cannot read the pod %q: %v", name, err)
	}
	return p
}

// WaitPod waits until the pod is as wanted, and returns it.
func (s *Space) WaitPod(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	s.T.Helper()
	var found *corev1.Pod
	s.Eventually(fmt.Sprintf("the pod %q %s", name, what), func(ctx context.Context) error {
		p, err := s.Kube.CoreV1().Pods(s.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if found = p; !is(p) {
			return fmt.Errorf("it is %s: %s", p.Status.Phase, whyNot(p))
		}
		return nil
	})
	return found
}

// WaitReady waits until the pod is ready, and returns it.
func (s *Space) WaitReady(name string) *corev1.Pod {
	s.T.Helper()
	return s.WaitPod(name, "is ready", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	})
}

// WaitEnded waits until the pod's first container has ended, and returns how.
func (s *Space) WaitEnded(name string) *corev1.ContainerStateTerminated {
	s.T.Helper()
	p := s.WaitPod(name, "has ended", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Terminated != nil
	})
	return p.Status.ContainerStatuses[0].State.Terminated
}

// whyNot says what holds a pod up, in the words of its status.
func whyNot(p *corev1.Pod) string {
	var said []string
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if c.State.Waiting != nil {
			said = append(said, c.Name+" "+c.State.Waiting.Reason+" "+c.State.Waiting.Message)
		}
		if c.State.Terminated != nil {
			said = append(said, fmt.Sprintf("%s ended: %s %d", c.Name, c.State.Terminated.Reason, c.State.Terminated.ExitCode))
		}
	}
	return strings.Join(append(said, p.Status.Message), "; ")
}

// Log is what a container has printed.
func (s *Space) Log(pod, container string) string {
	s.T.Helper()
	raw, err := s.log(s.T.Context(), pod, container)
	if err != nil {
		s.T.Fatalf("cannot read the log of %q: %v", pod, err)
	}
	return raw
}

func (s *Space) log(ctx context.Context, pod, container string) (string, error) {
	most := int64(64 << 10)
	raw, err := s.Kube.CoreV1().Pods(s.Name).GetLogs(pod, &corev1.PodLogOptions{Container: container, LimitBytes: &most}).DoRaw(ctx)
	return string(raw), err
}

// Exec runs a command in the pod's first container and returns what it prints.
func (s *Space) Exec(pod string, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.T.Context(), Patience)
	defer cancel()
	request := s.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.Name).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(s.Config, "GET", request.URL().String())
	if err != nil {
		return "", fmt.Errorf("cannot run %q: %w", command, err)
	}
	var out, problems bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &problems}); err != nil {
		return "", fmt.Errorf("cannot run %q: %w: %s", command, err, problems.String())
	}
	return out.String(), nil
}

// MustExec is Exec for a command that cannot fail unless the test does.
func (s *Space) MustExec(pod string, command ...string) string {
	s.T.Helper()
	out, err := s.Exec(pod, command...)
	if err != nil {
		s.T.Fatal(err)
	}
	return out
}
