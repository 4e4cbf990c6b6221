package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/test/load"
)

// measureKill has a hundred runs meet two replicas of which one is killed.
func measureKill(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet) error {
	const target = 4 // of two replicas, two each
	change := small("270m", settings{"pool.replicas": "2", "pool.target": "2", "pool.max": "2"})
	if err := p.install(ctx, change); err != nil {
		return err
	}
	return p.withAgent(ctx, func() error {
		return e.eachRound(ctx, func() error {
			if err := p.waitWarm(ctx, target); err != nil {
				return err
			}
			shots, killed, err := p.killUnderLoad(ctx)
			if err != nil {
				return err
			}
			if err := addKill(sheet, shots, killed); err != nil {
				return err
			}
			err = p.waitWarm(ctx, target)
			sheet.Add(partKill, "from the kill until all is as before", "s", time.Since(killed).Seconds())
			return err
		})
	})
}

// killUnderLoad kills the replica that the agent's sidecar asks first: the one
// whose sandbox served before.
func (p *Platform) killUnderLoad(ctx context.Context) ([]shot, time.Time, error) {
	pools, err := p.pools(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	first, err := p.call(ctx, orders{Code: "print(1)", Callers: 1, Each: 1})
	if err != nil {
		return nil, time.Time{}, err
	}
	victim, err := p.servedBy(ctx, pools, first[0])
	if err != nil {
		return nil, time.Time{}, err
	}
	type outcome struct {
		shots []shot
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		shots, err := p.call(ctx, orders{Code: "import time; time.sleep(0.2); print(1)", Callers: 10, Each: 10})
		done <- outcome{shots, err}
	}()
	if err := sleep(ctx, 4*time.Second); err != nil {
		return nil, time.Time{}, err
	}
	killed := time.Now()
	killErr := p.kill(ctx, pools[victim])
	got := <-done
	return got.shots, killed, errors.Join(killErr, got.err)
}

func addKill(sheet *load.Sheet, shots []shot, killed time.Time) error {
	ids := map[string]int{}
	var errs []error
	answered, retry, perhaps, slowest := 0, 0, 0, time.Duration(0)
	for _, s := range shots {
		slowest = max(slowest, s.took())
		f := s.Answer.Error
		switch {
		case f == nil && s.check("1\n") == nil:
			answered++
			ids[s.Answer.SandboxID]++
		case f != nil && f.Executed == "no" && f.Retryable:
			retry++
		case f != nil && f.Executed == "maybe" && s.ended().After(killed):
			perhaps++
		default:
			errs = append(errs, fmt.Errorf("a run of the load: %w", errors.Join(s.check("1\n"), errors.New(s.Broken))))
		}
	}
	twice := 0
	for _, n := range ids {
		if n > 1 {
			twice++
		}
	}
	add := func(name, unit string, v float64) { sheet.Add(partKill, name, unit, v) }
	add("runs", "", float64(len(shots)))
	add("answered", "", float64(answered))
	add("refused, retryable, nothing executed", "", float64(retry))
	add("lost with the replica, executed maybe", "", float64(perhaps))
	add("neither", "", float64(len(errs)))
	add("sandboxes that served twice", "", float64(twice))
	add("slowest answer", "s", slowest.Seconds())
	return joined(errs)
}

// servedBy finds the replica whose sandbox ran the program. Sandboxes bear its
// name in a label, and its log tells which name it has taken.
func (p *Platform) servedBy(ctx context.Context, pools []corev1.Pod, s shot) (int, error) {
	if err := s.check("1\n"); err != nil {
		return 0, err
	}
	l, err := p.runs.wait(ctx, s.Answer.SandboxID, func(l life) bool { return l.replica != "" })
	if err != nil {
		return 0, err
	}
	for i, pool := range pools {
		log, err := p.kube.CoreV1().Pods(systemSpace).GetLogs(pool.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			return 0, fmt.Errorf("cannot read the log of the pool: %w", err)
		}
		if strings.Contains(string(log), l.replica) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no replica of the pool is %q", l.replica)
}
