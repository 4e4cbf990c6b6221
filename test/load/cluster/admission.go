package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/load"
)

// admissionsEach is how many pods are asked for, for each warm run of a round:
// a hundredth of them is to be more than one.
const admissionsEach = 5

// measureAdmission asks how much longer the API server takes to let a pod in
// when it asks the injector. Nothing is made (a dry run goes the whole way but
// for the last step); pods with and without take turns, so that whatever else
// the machine does falls on both.
func measureAdmission(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet) error {
	if err := p.install(ctx, settings{"injector.replicas": "1"}); err != nil {
		return err
	}
	if err := within(ctx, "pods are injected", func() error { return p.admit(ctx, agentsSpace, nil) }); err != nil {
		return err
	}
	return e.eachRound(ctx, func() error {
		var with, without []time.Duration
		for range e.Samples * admissionsEach {
			for space, times := range map[string]*[]time.Duration{agentsSpace: &with, bareSpace: &without} {
				if err := p.admit(ctx, space, times); err != nil {
					return err
				}
			}
		}
		addAdmission(sheet, with, without)
		return nil
	})
}

func addAdmission(sheet *load.Sheet, with, without []time.Duration) {
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		a, b := load.Quantile(with, q.q), load.Quantile(without, q.q)
		sheet.Add(partAdmission, "pod let in, injected, "+q.name, "ms", load.Milliseconds(a))
		sheet.Add(partAdmission, "pod let in, in a namespace that is not enrolled, "+q.name, "ms", load.Milliseconds(b))
		sheet.Add(partAdmission, "what the injector adds, "+q.name, "ms", load.Milliseconds(a-b))
	}
}

// admit has a pod let in, and notes what that took.
func (p *Platform) admit(ctx context.Context, space string, times *[]time.Duration) error {
	pod := p.agentPod("admitted", false)
	pod.Namespace = space
	began := time.Now()
	made, err := p.kube.CoreV1().Pods(space).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("cannot have a pod let in: %w", err)
	}
	sidecar := slices.ContainsFunc(made.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "code-sandbox-sidecar" })
	if sidecar != (space == agentsSpace) {
		return errors.New("a pod is not injected, or one is that should not be")
	}
	if times != nil {
		*times = append(*times, took)
	}
	return nil
}
