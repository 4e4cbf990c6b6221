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
)

// leaveOptions are the flags of "control leave".
type leaveOptions struct {
	namespace, deployment, selector string
	atMost                          time.Duration
	logLevel                        string
}

func parseLeave(args []string) (leaveOptions, error) {
	var o leaveOptions
	fs := flag.NewFlagSet("control leave", flag.ContinueOnError)
	fs.StringVar(&o.namespace, "namespace", "", "the `namespace` of the pool; required")
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
	case o.namespace == "" || o.deployment == "" || o.selector == "" || o.atMost <= 0:
		return o, fmt.Errorf("%w: --namespace, --deployment, --selector and --at-most must be set", flags.ErrUsage)
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
	if apierrors.IsNotFound(err) {
		log.Info("there is no pool")
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot scale the Deployment %q to none: %w", o.deployment, err)
	}
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
