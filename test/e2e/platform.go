//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Chart is the folder of one of the repository's charts, as the packages below
// this one see it.
func Chart(name string) string { return filepath.Join("..", "..", "..", "helm", name) }

// Helm runs helm on the space's namespace, and returns what it prints.
func (s *Space) Helm(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.Bed.Bin, "helm"), append(args, "--namespace", s.Name)...)
	home := filepath.Join(s.Bed.Work, "helm")
	cmd.Env = append(append(os.Environ(), s.Bed.Env()...), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Parts are the pods of parts of the platform in this namespace: "pool", "injector".
func (s *Space) Parts(ctx context.Context, components ...string) ([]corev1.Pod, error) {
	pods, err := s.Kube.CoreV1().Pods(s.Name).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component in (" + strings.Join(components, ",") + ")"})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

// Scale gives one of the platform's Deployments that many replicas, and waits for
// none of them.
func (s *Space) Scale(deployment string, replicas int) {
	s.T.Helper()
	_, err := s.Kube.AppsV1().Deployments(s.Name).Patch(s.T.Context(), deployment, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{}, "scale")
	if err != nil {
		s.T.Fatalf("cannot scale %q: %v", deployment, err)
	}
}

// Metrics are what a pod of the platform, or a sidecar, serves on its admin port.
func (s *Space) Metrics(ctx context.Context, ip string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ip+":8902/metrics", nil)
	if err != nil {
		return "", err
	}
	answer, err := s.HTTP().Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200q", answer.Status, body)
	}
	return string(body), err
}

var leased = regexp.MustCompile(`code_sandbox_pool_sandboxes\{state="leased"\} (\d+)\n`)

// Leased is how many runs and calls a replica of the pool has in flight.
func (s *Space) Leased(ctx context.Context, ip string) (int, error) {
	text, err := s.Metrics(ctx, ip)
	if err != nil {
		return 0, err
	}
	found := leased.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("it does not count its runs: %.300q", text)
	}
	return strconv.Atoi(found[1])
}
