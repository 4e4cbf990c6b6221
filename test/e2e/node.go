//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
)

// Kill ends a container's first process as kill -9 does. The cluster hears of
// it afterwards, as it does of any process that dies.
func (s *Space) Kill(pod, container string) {
	s.T.Helper()
	p := s.Get(pod)
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if c.Name != container {
			continue
		}
		id := strings.TrimPrefix(c.ContainerID, "containerd://")
		args := s.Bed.Enter(true, "/run/bed/bin/ctr", "--address", "/run/containerd/containerd.sock", "--namespace", "k8s.io",
			"tasks", "kill", "--signal", "SIGKILL", id)
		if out, err := exec.CommandContext(s.T.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			s.T.Fatalf("cannot kill the container %q of %q: %v: %s", container, pod, err, out)
		}
		return
	}
	s.T.Fatalf("cannot kill the container %q of %q: it has none of that name", container, pod)
}
