//go:build e2e

package smoke

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// Each image starts as it is, and holds what it is there for.
func TestImages(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	const who = "import os, sys; print('user', os.getuid(), 'shell', os.path.exists('/bin/sh')); "
	f := func(image, want, code string) {
		t.Helper()
		p := s.Pod(image, image, "python3", "-c", who+code)
		asItIs(p)
		if image == "agent-bare" {
			p.Spec.Containers[0].Args = p.Spec.Containers[0].Args[1:] // its entrypoint is the interpreter
		}
		s.Create(p)
		ended := s.WaitEnded(image)
		if got := strings.TrimSpace(s.Log(image, "main")); ended.ExitCode != 0 || got != want {
			t.Errorf("%s ended with %d and said %q, want %q", image, ended.ExitCode, got, want)
		}
	}
	// packages for data
	f("python", "user 65532 shell True\n[2 4]\n2\npng", `import numpy, pandas, io, matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as plt
print(numpy.array([1, 2]) * 2); print(len(pandas.DataFrame({'a': [1, 2]}))); b = io.BytesIO(); plt.plot([1]); plt.savefig(b); print(b.getvalue()[1:4].decode().lower())`)
	// a plain one
	f("agent-python", "user 1000 shell True\n3.11", "print('.'.join(map(str, sys.version_info[:2])))")
	// with frameworks
	f("agent-framework", "user 1000 shell True\nfunction_tool tool", "import agents, langchain_core.tools as t; print(agents.function_tool.__name__, t.tool.__name__)")
	// no shell, and no other program
	f("agent-bare", "user 65532 shell False\n['python3', 'python3.11']", "print(sorted(os.listdir('/usr/bin')))")
	// root
	f("agent-root", "user 0 shell True\n/root", "print(os.path.expanduser('~'))")
	// a user by name
	f("agent-named", "user 1000 shell True\n/home/app", "print(os.getcwd())")
	// another C library
	f("agent-musl", "user 1000 shell False\nmusl", "import asyncio, hashlib, json, socket, zlib; print('musl' if 'linux-musl/libc.so' in open('/proc/self/maps').read() else 'not musl')")
}

// asItIs drops what overrides the image's own user, and gives the pod a folder
// to write to.
func asItIs(p *corev1.Pod) {
	p.Spec.SecurityContext.RunAsNonRoot, p.Spec.SecurityContext.RunAsUser = nil, nil
	p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	main := &p.Spec.Containers[0]
	main.VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
	main.Env = []corev1.EnvVar{{Name: "MPLCONFIGDIR", Value: "/tmp"}}
	main.Resources.Limits = nil
}

// A user by name cannot be shown to be no root, so the kubelet refuses it
// where that is asked for: the product must set a number.
func TestNamedUserIsRefused(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	p := s.Pod("named", "agent-named", "python3")
	p.Spec.SecurityContext.RunAsUser = nil
	s.Create(p)
	s.WaitPod("named", "is refused", func(p *corev1.Pod) bool {
		c := p.Status.ContainerStatuses
		return len(c) > 0 && c[0].State.Waiting != nil && c[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
}

// The product's programs are in its image, which runs as nobody special.
func TestProductImage(t *testing.T) {
	t.Parallel()
	s := e2e.NewSpace(t)
	p := s.Pod("product", "code-sandbox", "version")
	p.Spec.SecurityContext.RunAsUser = nil // its own is a number
	s.Create(p)
	if ended := s.WaitEnded("product"); ended.ExitCode != 0 || s.Log("product", "main") == "" {
		t.Errorf("code-sandbox version ended with %d and said %q", ended.ExitCode, s.Log("product", "main"))
	}
}
