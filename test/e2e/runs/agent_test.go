//go:build e2e

package runs

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// agent starts an agent, as the injector makes them, and returns the URL of
// its sidecar. It ends with the test.
func (p *platform) agent(t *testing.T, name string) string {
	t.Helper()
	pod := p.agentPod(t, name)
	p.tenants.Create(pod)
	t.Cleanup(func() { p.remove(t, name) })
	p.tenants.WaitReady(name)
	return p.tenants.Forward(name, 8900)
}

// remove takes an agent away at once.
func (p *platform) remove(t *testing.T, name string) {
	now := int64(0)
	err := p.tenants.Kube.CoreV1().Pods(tenantsName).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil {
		t.Errorf("cannot remove the agent %q: %v", name, err)
	}
}

// agentPod is a pod with a sidecar and a main container that waits.
func (p *platform) agentPod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := p.tenants.Pod(name, "probe", "sleep")
	locked := pod.Spec.Containers[0].SecurityContext
	always := corev1.ContainerRestartPolicyAlways
	seconds := int64(600)
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "sidecar", Image: p.tenants.Image("code-sandbox"), Command: []string{"/usr/local/bin/sidecar"}, RestartPolicy: &always,
		SecurityContext: locked,
		Env: []corev1.EnvVar{
			{Name: "CODE_SANDBOX_POOL", Value: poolName + "." + systemName + ".svc:8443"},
			{Name: "CODE_SANDBOX_POOL_CA", Value: p.authority(t)},
			{Name: "CODE_SANDBOX_LOG_LEVEL", Value: "info"},
			{Name: "CODE_SANDBOX_POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/code-sandbox", ReadOnly: true}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("1m"), "memory": resource.MustParse("24Mi")},
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("64Mi")}},
		StartupProbe: &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 60,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8902)}}},
	}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: "code-sandbox-pool", ExpirationSeconds: &seconds, Path: "token"}}}}}}}
	return pod
}

// authority is the certificate that the pool's are signed by.
func (p *platform) authority(t *testing.T) string {
	t.Helper()
	secret, err := p.system.Kube.CoreV1().Secrets(systemName).Get(t.Context(), "code-sandbox-ca", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("cannot read the pool's authority: %v", err)
	}
	return string(secret.Data["ca.crt"])
}

// call sends a program with a timeout of 20 s and fails the test when there is
// no answer of the API's shape.
func call(t *testing.T, url, code string) e2e.Answer {
	t.Helper()
	a, err := e2e.Call(t.Context(), url, map[string]any{"code": code, "timeout_seconds": 20})
	if err != nil {
		t.Errorf("no answer: %v", err)
	}
	return a
}

// run is call for a program that must run.
func run(t *testing.T, url, code string) e2e.Answer {
	t.Helper()
	began := time.Now()
	a := call(t, url, code)
	if a.Failure != nil {
		t.Fatalf("after %s: %d %s: %s", time.Since(began), a.Status, a.Failure.Code, a.Failure.Message)
	}
	return a
}
