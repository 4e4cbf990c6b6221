// Package cluster measures the product on a Kubernetes cluster, beside plain
// pods of the same spec in the same run. It is a black box: the chart is
// installed with helm, pods are watched through the API server, and requests are
// sent by a program in an agent's container.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	bed "github.com/code-sandbox/code-sandbox/test/cluster"
)

// The namespaces that are used, each for one thing.
const (
	systemSpace = "code-sandbox"
	runsSpace   = "code-sandbox-runs"
	agentsSpace = "load-agents"
	bareSpace   = "load-bare"

	// patience bounds every wait for the cluster.
	patience = 2 * time.Minute
)

// Platform is a cluster of test/cluster and the product in it.
type Platform struct {
	state bed.State
	kube  kubernetes.Interface
	runs  *watcher // sees the sandboxes
	bare  *watcher // sees the plain pods beside them
	chart string
	ca    string
	logf  func(format string, args ...any)
}

// Open makes ready to install into the running cluster of the folder work.
func Open(ctx context.Context, work, chart string, logf func(string, ...any)) (*Platform, error) {
	p := &Platform{chart: chart, logf: logf}
	var err error
	if p.state, err = bed.ReadState(work); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.state.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read the cluster's configuration: %w", err)
	}
	config.QPS, config.Burst = 200, 400
	if p.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	for _, name := range []string{systemSpace, runsSpace, agentsSpace, bareSpace} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == agentsSpace {
			ns.Labels = map[string]string{"code-sandbox.dev/enabled": "true"}
		}
		if _, err := p.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("cannot make the namespace %q: %w", name, err)
		}
	}
	if p.runs, err = watchPods(ctx, p.kube, runsSpace); err != nil {
		return nil, err
	}
	if p.bare, err = watchPods(ctx, p.kube, bareSpace); err != nil {
		return nil, err
	}
	return p, nil
}

// settings are values of the chart.
type settings map[string]string

// install installs the chart anew, and waits until as many sandboxes are warm as
// it is to keep.
func (p *Platform) install(ctx context.Context, change settings) error {
	// A small node has no room for the sandboxes of two installations.
	if err := p.uninstall(ctx); err != nil {
		return err
	}
	values := settings{
		"injector.replicas": "0", // agents here are made with their sidecar
		"pool.replicas":     "1", "pool.target": "1", "pool.drainSeconds": "5", "sandbox.preload": "null",
	}
	for key, image := range map[string]string{"image": "code-sandbox", "sandbox.image": "python"} {
		repository, digest, _ := strings.Cut(p.state.Images[image], "@")
		values[key+".repository"], values[key+".digest"] = repository, digest
	}
	maps.Copy(values, change)
	args := []string{"install", "code-sandbox", p.chart, "--namespace", systemSpace, "--wait", "--timeout", patience.String()}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		args = append(args, "--set", key+"="+values[key])
	}
	if out, err := p.program(ctx, "helm", args...); err != nil {
		return fmt.Errorf("cannot install the chart: %w: %s", err, out)
	}
	if values["injector.replicas"] == "0" { // nobody answers for it then, and it fails closed
		hooks := p.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
		if err := hooks.Delete(ctx, "code-sandbox", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cannot remove the webhook: %w", err)
		}
	}
	secret, err := p.kube.CoreV1().Secrets(systemSpace).Get(ctx, "code-sandbox-ca", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot read the pool's certificate: %w", err)
	}
	p.ca = string(secret.Data["ca.crt"])
	return p.rested(ctx, values)
}

// uninstall leaves nothing of an earlier installation but its certificates.
func (p *Platform) uninstall(ctx context.Context) error {
	if out, err := p.program(ctx, "helm", "uninstall", "code-sandbox", "--namespace", systemSpace, "--ignore-not-found", "--wait",
		"--timeout", patience.String()); err != nil {
		return fmt.Errorf("cannot uninstall the chart: %w: %s", err, out)
	}
	err := within(ctx, "the pool has stopped", func() error {
		pools, err := p.pools(ctx)
		if err == nil && len(pools) > 0 {
			err = fmt.Errorf("%d replicas of the pool are still there", len(pools))
		}
		return err
	})
	if err != nil {
		return err
	}
	// A pool that stops after its rights have gone leaves sandboxes behind.
	if err := p.kube.CoreV1().Pods(runsSpace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("cannot delete what the pool has left: %w", err)
	}
	return p.waitWarm(ctx, 0)
}

// rested waits for the replicas and warm sandboxes that were asked for, and for
// those of before to be gone.
func (p *Platform) rested(ctx context.Context, values settings) error {
	var replicas, target int
	if _, err := fmt.Sscan(values["pool.replicas"]+" "+values["pool.target"], &replicas, &target); err != nil {
		return fmt.Errorf("cannot understand how many are wanted: %w", err)
	}
	return within(ctx, "the pool has come to rest", func() error {
		pools, err := p.pools(ctx)
		if err != nil {
			return err
		}
		if len(pools) != replicas {
			return fmt.Errorf("there are %d replicas, not %d", len(pools), replicas)
		}
		return p.warm(replicas * target)
	})
}

// warm is an error unless as many sandboxes exist, and all are ready.
func (p *Platform) warm(n int) error {
	if all, ready := p.runs.count(); all != n || ready != n {
		return fmt.Errorf("%d of %d sandboxes are ready, of which %d should be there", ready, all, n)
	}
	return nil
}

func (p *Platform) waitWarm(ctx context.Context, n int) error {
	return within(ctx, "sandboxes are warm", func() error { return p.warm(n) })
}

// pools are the pods of the pool.
func (p *Platform) pools(ctx context.Context) ([]corev1.Pod, error) {
	list, err := p.kube.CoreV1().Pods(systemSpace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=pool"})
	if err != nil {
		return nil, fmt.Errorf("cannot list the pool's pods: %w", err)
	}
	return list.Items, nil
}

// program runs one of the cluster's programs.
func (p *Platform) program(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.state.Bin, name), args...)
	cmd.Env = append(os.Environ(), p.state.Env()...)
	for _, kind := range []string{"CACHE", "CONFIG", "DATA"} {
		cmd.Env = append(cmd.Env, "HELM_"+kind+"_HOME="+filepath.Join(p.state.Work, "helm"))
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kill ends the container's process at once, as nothing but the kernel can.
func (p *Platform) kill(ctx context.Context, pod corev1.Pod) error {
	if len(pod.Status.ContainerStatuses) == 0 {
		return errors.New("cannot kill a container: it has not started")
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	args := p.state.Enter(true, "/run/bed/bin/ctr", "--address", "/run/containerd/containerd.sock", "--namespace", "k8s.io",
		"tasks", "kill", "--signal", "SIGKILL", id)
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot kill the container of %q: %w: %s", pod.Name, err, out)
	}
	return nil
}

// within calls check until it returns nil, for a bounded time.
func within(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("not within %s: %s: %w", patience, what, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
