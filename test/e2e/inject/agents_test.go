//go:build e2e

package inject

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// strict gives a namespace a quota and limits, as administrators do: a
// container without requests and limits is not let in.
func strict(s *e2e.Space) {
	s.T.Helper()
	hard := corev1.ResourceList{}
	for name, value := range map[corev1.ResourceName]string{"requests.cpu": "2", "limits.cpu": "8", "requests.memory": "1Gi", "limits.memory": "4Gi", "pods": "20"} {
		hard[name] = resource.MustParse(value)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if _, err := s.Kube.CoreV1().ResourceQuotas(s.Name).Create(s.T.Context(), quota, metav1.CreateOptions{}); err != nil {
		s.T.Fatal(err)
	}
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("512Mi")},
		Min: corev1.ResourceList{"cpu": resource.MustParse("1m"), "memory": resource.MustParse("4Mi")}}}}}
	if _, err := s.Kube.CoreV1().LimitRanges(s.Name).Create(s.T.Context(), limits, metav1.CreateOptions{}); err != nil {
		s.T.Fatal(err)
	}
}

// P12, P13, P14: agents of every kind, unchanged, in a restricted namespace with
// a quota, get their answer at their first line of code, and complete.
func (p *platform) testAgents(t *testing.T) {
	f := func(name string, run func(s *e2e.Space)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := p.agents(t)
			strict(s)
			run(s)
		})
	}
	// A bare pod.
	f("Pod", func(s *e2e.Space) {
		s.Create(agent(s, "agent", "agent-python"))
		answered(s, "agent")
	})
	// An init container of the agent's own asks too: the sidecar comes before it.
	f("InitContainer", func(s *e2e.Space) {
		pod := agent(s, "agent", "agent-python")
		first := pod.Spec.Containers[0].DeepCopy()
		first.Name = "first"
		pod.Spec.InitContainers = []corev1.Container{*first}
		s.Create(pod)
		answered(s, "agent")
		if said := s.Log("agent", "first"); said != "answer 42\n" {
			s.T.Errorf("the init container says %q", said)
		}
	})
	f("Deployment", func(s *e2e.Space) {
		pod := agent(s, "agent", "agent-python")
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		pod.Spec.Containers[0].Command[3] = asks + "import sys, time\nsys.stdout.flush()\ntime.sleep(600)\n"
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: template(pod)}}
		if _, err := s.Kube.AppsV1().Deployments(s.Name).Create(s.T.Context(), d, metav1.CreateOptions{}); err != nil {
			s.T.Fatal(err)
		}
		s.Eventually("the Deployment's agent answers", func(ctx context.Context) error {
			return saysInAny(ctx, s, "app=agent")
		})
	})
	f("Job", func(s *e2e.Space) {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: batchv1.JobSpec{Template: template(agent(s, "agent", "agent-python"))}}
		if _, err := s.Kube.BatchV1().Jobs(s.Name).Create(s.T.Context(), job, metav1.CreateOptions{}); err != nil {
			s.T.Fatal(err)
		}
		completes(s, "app=agent")
	})
	// By its schedule: the next full minute.
	f("CronJob", func(s *e2e.Space) {
		cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: batchv1.CronJobSpec{Schedule: "* * * * *",
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template(agent(s, "agent", "agent-python"))}}}}
		if _, err := s.Kube.BatchV1().CronJobs(s.Name).Create(s.T.Context(), cron, metav1.CreateOptions{}); err != nil {
			s.T.Fatal(err)
		}
		s.EventuallyIn(time.Minute, "the CronJob has made a Job", func(ctx context.Context) error {
			jobs, err := s.Kube.BatchV1().Jobs(s.Name).List(ctx, metav1.ListOptions{})
			if err == nil && (len(jobs.Items) == 0 || !metav1.IsControlledBy(&jobs.Items[0], cronJob(s))) {
				err = fmt.Errorf("it has made %d", len(jobs.Items))
			}
			return err
		})
		completes(s, "app=agent")
	})
	f("DeletedAtOnce", func(s *e2e.Space) {
		pod := agent(s, "agent", "agent-python")
		pod.Spec.TerminationGracePeriodSeconds = nil // the usual time to end
		s.Create(pod)
		goes(s, "agent")
	})
	// P12: it goes away when it is deleted while it starts: the sidecar is there,
	// the agent is not yet.
	f("DeletedWhileStarting", func(s *e2e.Space) {
		pod := agent(s, "agent", "agent-python")
		pod.Spec.TerminationGracePeriodSeconds = nil
		first := pod.Spec.Containers[0].DeepCopy()
		first.Name, first.Command = "first", []string{"python3", "-c", "import signal, time; signal.signal(15, lambda *_: exit(0)); time.sleep(600)"}
		pod.Spec.InitContainers = []corev1.Container{*first}
		s.Create(pod)
		s.WaitPod("agent", "runs its own init container", func(p *corev1.Pod) bool {
			for _, c := range p.Status.InitContainerStatuses {
				if c.Name == "first" {
					return c.State.Running != nil
				}
			}
			return false
		})
		goes(s, "agent")
	})
}

func cronJob(s *e2e.Space) *batchv1.CronJob {
	s.T.Helper()
	c, err := s.Kube.BatchV1().CronJobs(s.Name).Get(s.T.Context(), "agent", metav1.GetOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	return c
}

// goes deletes a pod as a user does, and sees it end well before the kubelet
// would lose its patience.
func goes(s *e2e.Space, pod string) {
	s.T.Helper()
	if err := s.Kube.CoreV1().Pods(s.Name).Delete(s.T.Context(), pod, metav1.DeleteOptions{}); err != nil {
		s.T.Fatal(err)
	}
	s.EventuallyIn(25*time.Second, "the pod is gone", func(ctx context.Context) error {
		_, err := s.Kube.CoreV1().Pods(s.Name).Get(ctx, pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

func template(pod *corev1.Pod) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
}

// saysInAny finds the answer in the log of one of the pods.
func saysInAny(ctx context.Context, s *e2e.Space, selector string) error {
	pods, err := s.Kube.CoreV1().Pods(s.Name).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	for _, p := range pods.Items {
		raw, err := s.Kube.CoreV1().Pods(s.Name).GetLogs(p.Name, &corev1.PodLogOptions{Container: "main"}).DoRaw(ctx)
		if err == nil && strings.HasPrefix(string(raw), "answer 42\n") {
			return nil
		}
	}
	return fmt.Errorf("none of %d pods has said it", len(pods.Items))
}

// completes waits for a Job of the agent's to end well.
func completes(s *e2e.Space, selector string) {
	s.T.Helper()
	s.Eventually("the Job completes", func(ctx context.Context) error {
		jobs, err := s.Kube.BatchV1().Jobs(s.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, j := range jobs.Items {
			if j.Status.Succeeded == 1 {
				return saysInAny(ctx, s, selector)
			}
		}
		return errors.New("it has not")
	})
}

// P15: images as people make them. Those that Pod Security "restricted" refuses
// without us are in a namespace that does not ask for it.
func (p *platform) testImages(t *testing.T) {
	f := func(image string, change func(*corev1.Pod), labels ...e2e.Option) {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			s := e2e.NewSpace(t, append(labels, e2e.Labels(map[string]string{"code-sandbox.dev/enabled": "true"}))...)
			pod := agent(s, "agent", image)
			if change != nil {
				change(pod)
			}
			s.Create(pod)
			answered(s, "agent")
		})
	}
	// No shell, no tar, nothing but an interpreter; its root cannot be written to.
	f("agent-bare", nil, e2e.Labels(restricted))
	// Another C library.
	f("agent-musl", nil, e2e.Labels(restricted))
	// A user by name, and root: nobody asks for more than that.
	plain := func(p *corev1.Pod) {
		p.Spec.SecurityContext = nil
		p.Spec.Containers[0].SecurityContext = nil
	}
	f("agent-named", plain)
	f("agent-root", plain)
	// One that starts with an arbitrary user.
	// One without Python: the agent runs, and its programs do.
	t.Run("probe", func(t *testing.T) {
		t.Parallel()
		s := p.agents(t)
		s.Create(s.Pod("agent", "probe", "sleep"))
		s.WaitReady("agent")
		if a := s.Run(s.Forward("agent", 8900), "print(6 * 7)"); a.Stdout != "42\n" {
			t.Errorf("the answer is %+v", a)
		}
	})
	f("agent-framework", func(p *corev1.Pod) {
		user := int64(1_000_770_000)
		p.Spec.SecurityContext.RunAsUser, p.Spec.SecurityContext.FSGroup = &user, &user
	}, e2e.Labels(restricted))
}
