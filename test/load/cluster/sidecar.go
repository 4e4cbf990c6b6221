package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/load"
)

// measureSidecar asks what a sidecar holds, and by how much it holds up a pod:
// pods with and without take turns.
func measureSidecar(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet) error {
	if err := p.install(ctx, small("400m", settings{})); err != nil {
		return err
	}
	agents, err := watchPods(ctx, p.kube, agentsSpace)
	if err != nil {
		return err
	}
	err = e.eachRound(ctx, func() error {
		var with, without []time.Duration
		for i := range e.Cold {
			for _, sidecar := range []bool{true, false} {
				took, err := p.startAgent(ctx, agents, fmt.Sprintf("start-%t-%s", sidecar, bareName(i)), sidecar)
				if err != nil {
					return err
				}
				if sidecar {
					with = append(with, took)
				} else {
					without = append(without, took)
				}
			}
		}
		a, b := load.Quantile(with, 0.5), load.Quantile(without, 0.5)
		sheet.Add(partSidecar, "agent's pod created to Ready, with it", "ms", load.Milliseconds(a))
		sheet.Add(partSidecar, "agent's pod created to Ready, without", "ms", load.Milliseconds(b))
		sheet.Add(partSidecar, "what it adds", "ms", load.Milliseconds(a-b))
		return nil
	})
	if err != nil {
		return err
	}
	return e.eachRound(ctx, func() error {
		return p.withAgent(ctx, func() error { return p.sidecarMemory(ctx, sheet) })
	})
}

func (p *Platform) startAgent(ctx context.Context, agents *watcher, name string, sidecar bool) (time.Duration, error) {
	if _, err := p.kube.CoreV1().Pods(agentsSpace).Create(ctx, p.agentPod(name, sidecar), metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("cannot make an agent: %w", err)
	}
	l, err := agents.wait(ctx, name, func(l life) bool { return !l.ready.IsZero() })
	return l.ready.Sub(l.made), errors.Join(err, p.remove(context.WithoutCancel(ctx), name))
}

// sidecarMemory is asked for when the sidecar has served nobody, and again when
// it has served some.
func (p *Platform) sidecarMemory(ctx context.Context, sheet *load.Sheet) error {
	ask := func(name string) error {
		text, err := p.metrics(ctx, "127.0.0.1")
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			var v float64
			if n, _ := fmt.Sscanf(line, "process_resident_memory_bytes %g", &v); n == 1 {
				sheet.Add(partSidecar, name, "MiB", v/(1<<20))
				return nil
			}
		}
		return errors.New("the sidecar does not tell its memory")
	}
	if err := ask("resident memory, idle"); err != nil {
		return err
	}
	shots, err := p.call(ctx, orders{Code: "print('x' * 100000)", Callers: 2, Each: 3})
	if err != nil {
		return err
	}
	for _, s := range shots {
		if err := s.check(strings.Repeat("x", 100000) + "\n"); err != nil {
			return err
		}
	}
	return ask("resident memory, after runs with 100 kB of output each")
}
