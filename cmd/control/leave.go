package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/injector"
)

// leaveOptions are the flags of "control leave".
type leaveOptions struct {
	namespace, runs      string
	deployment, selector string
	atMost               time.Duration
	logLevel             string
}

func parseLeave(args []string) (leaveOptions, error) {
	var o leaveOptions
	fs := flag.NewFlagSet("control leave", flag.ContinueOnError)
	fs.StringVar(&o.namespace, "namespace", "", "the `namespace` of the pool; required")
	fs.StringVar(&o.runs, "runs-namespace", "code-sandbox-runs", "the `namespace` of its sandboxes")
	fs.StringVar(&o.deployment, "deployment", "code-sandbox-pool", "the pool's Deployment, a `name`")
	fs.StringVar(&o.selector, "selector", "app.kubernetes.io/name=code-sandbox,app.kubernetes.io/component=pool", "`labels` of its pods")
	fs.DurationVar(&o.atMost, "at-most", 10*time.Minute, "how long the pool's pods may take to end")
	fs.StringVar(&o.logLevel, "log-level", "info", "log at this level: debug, info, warn or error")
	if err := flags.Parse(fs, args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("%w: %q is not a flag of control leave", flags.ErrUsage, fs.Arg(0))
	case o.namespace == "" || o.runs == "" || o.deployment == "" || o.selector == "" || o.atMost <= 0:
		return o, fmt.Errorf("%w: --namespace, --runs-namespace, --deployment, --selector and --at-most must be set", flags.ErrUsage)
	}
	return o, nil
}

// runLeave ends the pool while it still has its rights. An uninstall takes
// Deployment and rights within milliseconds of each other; without the latter
// the pool could not destroy its sandboxes.
func runLeave(ctx context.Context, o leaveOptions) error {
	log, err := newLogger(o.logLevel)
	if err != nil {
		return err
	}
	config, err := clusterConfig()
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make a client of the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.atMost)
	defer cancel()
	return leave(ctx, kube, o, log)
}

// lookEvery is how often the pool's pods are looked at.
const lookEvery = 500 * time.Millisecond

func leave(ctx context.Context, kube kubernetes.Interface, o leaveOptions, log hclog.Logger) error {
	_, err := kube.AppsV1().Deployments(o.namespace).Patch(ctx, o.deployment, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`),
		metav1.PatchOptions{}, "scale")
	switch {
	case apierrors.IsNotFound(err):
		log.Info("there is no pool")
	case err != nil:
		return fmt.Errorf("cannot scale the Deployment %q to none: %w", o.deployment, err)
	default:
		if err := ended(ctx, kube, o, log); err != nil {
			return err
		}
	}
	return sweep(ctx, kube, o)
}

// ended waits until the pool has no pods.
func ended(ctx context.Context, kube kubernetes.Interface, o leaveOptions, log hclog.Logger) error {
	for had := -1; ; {
		pods, err := kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: o.selector})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("cannot list the pool's pods: %w", err)
		}
		if err == nil {
			if len(pods.Items) == 0 {
				log.Info("the pool has ended")
				return nil
			}
			if had != len(pods.Items) {
				had = len(pods.Items)
				log.Info("waiting for the pool to end", "pods", had)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot wait for the pool any longer, it has %d pods: %w", had, ctx.Err())
		case <-time.After(lookEvery):
		}
	}
}

// sweep deletes what replicas have left that were killed not long ago: nobody
// will be there to find it.
func sweep(ctx context.Context, kube kubernetes.Interface, o leaveOptions) error {
	all := func(label string) metav1.ListOptions { return metav1.ListOptions{LabelSelector: label} }
	if err := kube.CoreV1().Pods(o.runs).DeleteCollection(ctx, metav1.DeleteOptions{}, all(injector.LabelKind)); err != nil {
		return fmt.Errorf("cannot delete the sandboxes that are left in %q: %w", o.runs, err)
	}
	err := kube.CoordinationV1().Leases(o.runs).DeleteCollection(ctx, metav1.DeleteOptions{}, all(injector.Prefix+"replica"))
	if err != nil {
		return fmt.Errorf("cannot delete the leases of replicas that are left in %q: %w", o.runs, err)
	}
	return nil
}
