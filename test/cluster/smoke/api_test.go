//go:build e2e

package smoke

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// A sidecar of a Job starts before the work and does not keep the Job from its
// end; a plain second container does.
func TestSidecarInJob(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	always := corev1.ContainerRestartPolicyAlways
	createJob(s, "with-sidecar", func(spec *corev1.PodSpec, side corev1.Container) {
		side.RestartPolicy = &always
		side.StartupProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(9000)}}}
		spec.InitContainers = []corev1.Container{side}
	})
	createJob(s, "with-container", func(spec *corev1.PodSpec, side corev1.Container) {
		spec.Containers = append(spec.Containers, side)
	})
	worked := waitWorked(s, "with-sidecar")
	if said := strings.TrimSpace(s.Log(worked, "main")); said != "127.0.0.1:9000 open" {
		t.Errorf("the work found its sidecar: %q", said)
	}
	s.Eventually("the job is complete", func(ctx context.Context) error { return complete(ctx, s, "with-sidecar") })
	waitWorked(s, "with-container")
	if complete(t.Context(), s, "with-container") == nil {
		t.Error("a job is complete whose second container runs on")
	}
}

func createJob(s *e2e.Space, name string, add func(*corev1.PodSpec, corev1.Container)) {
	s.T.Helper()
	p := s.Pod(name, "probe", "dial", "127.0.0.1:9000")
	side := *p.Spec.Containers[0].DeepCopy()
	side.Name, side.Args = "side", []string{"serve", ":9000"}
	add(&p.Spec, side)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec}}}
	if _, err := s.Kube.BatchV1().Jobs(s.Name).Create(s.T.Context(), job, metav1.CreateOptions{}); err != nil {
		s.T.Fatalf("cannot create a job: %v", err)
	}
}

// waitWorked returns the job's pod once the container "main" of it has ended.
func waitWorked(s *e2e.Space, job string) string {
	s.T.Helper()
	var name string
	s.Eventually("the work of "+job+" has ended", func(ctx context.Context) error {
		pods, err := s.Kube.CoreV1().Pods(s.Name).List(ctx, metav1.ListOptions{LabelSelector: "app=" + job})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			name = p.Name
			if slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
				return c.Name == "main" && c.State.Terminated != nil
			}) {
				return nil
			}
		}
		return errors.New("it goes on")
	})
	return name
}

func complete(ctx context.Context, s *e2e.Space, job string) error {
	j, err := s.Kube.BatchV1().Jobs(s.Name).Get(ctx, job, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if j.Status.Succeeded != 1 {
		return errors.New("it is not complete")
	}
	return nil
}

// TokenReview of a pod's projected token says which pod it is; for another
// audience the token is worth nothing.
func TestTokenReview(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	const audience = "code-sandbox-pool"
	p := s.Pod("caller", "agent-python", "python3", "-c", "print(open('/token/t').read(), flush=True); import time; time.sleep(1000)")
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/token", ReadOnly: true}}
	p.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, Path: "t"}}}}}}}
	s.Create(p)
	uid := string(s.WaitReady("caller").UID)
	var token string
	s.Eventually("the pod has said its token", func(context.Context) error {
		if token = strings.TrimSpace(s.Log("caller", "main")); token == "" {
			return errors.New("nothing yet")
		}
		return nil
	})
	good := review(s, token, audience)
	if !good.Authenticated {
		t.Fatalf("the token is not accepted: %s", good.Error)
	}
	for key, want := range map[string]string{"authentication.kubernetes.io/pod-name": "caller", "authentication.kubernetes.io/pod-uid": uid} {
		if got := good.User.Extra[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if review(s, token, "somebody-else").Authenticated {
		t.Error("the token is accepted for another audience")
	}
}

func review(s *e2e.Space, token, audience string) authenticationv1.TokenReviewStatus {
	s.T.Helper()
	r, err := s.Kube.AuthenticationV1().TokenReviews().Create(s.T.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatalf("cannot have the token reviewed: %v", err)
	}
	return r.Status
}
