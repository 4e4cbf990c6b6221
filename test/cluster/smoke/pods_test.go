//go:build e2e

package smoke

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// The digest that an image was built with is the one that the node reports.
func TestImageDigest(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	p := s.Pod("pulled", "probe", "sleep")
	p.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
	s.Create(p)
	got := s.WaitReady("pulled").Status.ContainerStatuses[0].ImageID
	if got != s.Image("probe") {
		t.Errorf("imageID is %q, want %q", got, s.Image("probe"))
	}
}

// A digest that no image has is not pulled, so that the check above can fail.
func TestImageWithAnotherDigest(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	p := s.Pod("unknown", "probe", "sleep")
	repository, _, _ := strings.Cut(s.Image("probe"), "@")
	p.Spec.Containers[0].Image = repository + "@sha256:" + strings.Repeat("0", 64)
	s.Create(p)
	s.WaitPod("unknown", "cannot be pulled", func(p *corev1.Pod) bool {
		c := p.Status.ContainerStatuses
		return len(c) > 0 && c[0].State.Waiting != nil && strings.Contains(c[0].State.Waiting.Reason, "ImagePull")
	})
}

var restricted = e2e.Labels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})

// The strictest policy of Pod Security is enforced, and our pods meet it.
func TestRestrictedPod(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t, restricted)
	s.Create(s.Pod("good", "agent-python", "python3", "-c", "import time; time.sleep(1000)"))
	s.WaitReady("good")
	status := s.MustExec("good", "python3", "-c", "print(open('/proc/self/status').read())")
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"} {
		if !strings.Contains(status, want) {
			t.Errorf("the status of the process has no %q:\n%s", want, status)
		}
	}
	bad := s.Pod("bad", "agent-python", "python3")
	bad.Spec.SecurityContext.SeccompProfile = nil
	if _, err := s.Kube.CoreV1().Pods(s.Name).Create(t.Context(), bad, metav1.CreateOptions{}); err == nil {
		t.Error("a pod without a seccomp profile was let in")
	}
}

// Over its memory limit a container is killed, and the status says why; below
// it, it lives.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	s.Create(s.Pod("greedy", "probe", "eat", "300"), s.Pod("modest", "probe", "eat", "32"))
	if ended := s.WaitEnded("greedy"); ended.Reason != "OOMKilled" || ended.ExitCode != 137 {
		t.Errorf("it ended with %s, %d; want OOMKilled, 137", ended.Reason, ended.ExitCode)
	}
	s.WaitReady("modest")
}

// Processes of a pod with a user namespace have numbers that are nobody's on
// the node.
func TestUserNamespace(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	f := func(name string, hostUsers, shared bool) {
		t.Helper()
		p := s.Pod(name, "agent-python", "python3", "-c", "print(open('/proc/self/uid_map').read())")
		p.Spec.HostUsers = &hostUsers
		s.Create(p)
		if ended := s.WaitEnded(name); ended.ExitCode != 0 {
			t.Fatalf("%s ended with %d", name, ended.ExitCode)
		}
		fields := strings.Fields(s.Log(name, "main"))
		if len(fields) != 3 || (fields[1] == "0") != shared {
			t.Errorf("uid_map of %s is %q", name, fields)
		}
	}
	// its own
	f("apart", false, false)
	// the node's
	f("shared", true, true)
}

// A pod of the runtime class has gVisor's kernel, another has the machine's.
func TestGVisor(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	class := "gvisor"
	inside := s.Pod("inside", "agent-python", "python3", "-c", "import os; print(os.uname().release)")
	inside.Spec.RuntimeClassName = &class
	outside := inside.DeepCopy()
	outside.Name, outside.Spec.RuntimeClassName = "outside", nil
	s.Create(inside, outside)
	for _, name := range []string{"inside", "outside"} {
		if ended := s.WaitEnded(name); ended.ExitCode != 0 {
			t.Fatalf("%s ended with %d", name, ended.ExitCode)
		}
	}
	in, out := strings.TrimSpace(s.Log("inside", "main")), strings.TrimSpace(s.Log("outside", "main"))
	if in != "4.4.0" || out == in {
		t.Errorf("the kernel is %q inside and %q outside", in, out)
	}
}
