//go:build e2e

package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// counts is nil when a replica has that line among its metrics.
func (p *platform) counts(ctx context.Context, line string) error {
	pods, err := p.system.Parts(ctx, "pool")
	if err != nil {
		return err
	}
	for _, pod := range pods {
		text, err := p.system.Metrics(ctx, pod.Status.PodIP)
		if err != nil {
			return err
		}
		if strings.Contains(text, line+"\n") {
			return nil
		}
	}
	return fmt.Errorf("no replica counts %s", line)
}

// An agent that has said hello has a copy before its first call, which finds it
// warm; with the agent its copies go.
func (p *platform) testAhead(t *testing.T) {
	s := p.agents
	s.Create(p.agent("foreseen", "python3", "-u", "server_agent.py"))
	s.EventuallyIn(patience, "its copy is warm beside the pool's own sandbox", func(ctx context.Context) error {
		return p.counts(ctx, `code_sandbox_pool_sandboxes{state="warm"} 2`)
	})
	if list, err := p.copies(t.Context()); err != nil || !slices.ContainsFunc(list, func(c corev1.Pod) bool { return ownedBy(c, "foreseen") }) {
		t.Errorf("the copies are %v, %v", list, err)
	}
	get := func(url string) string {
		t.Helper()
		return s.MustExec("foreseen", "python3", "-I", "-c", `import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=50).read().decode())`, url)
	}
	if said := get("http://127.0.0.1:8000/"); !strings.Contains(said, "tool_host") {
		t.Errorf("the agent says %q", said)
	}
	if said := get("http://127.0.0.1:8902/metrics"); !strings.Contains(said, `code_sandbox_tool_call_seconds_count{start="warm"} 1`+"\n") || strings.Contains(said, `{start="cold"} 1`+"\n") {
		t.Errorf("the first call was not warm: %s", said)
	}
	p.remove(t, "foreseen")
	err := e2e.Within(t.Context(), agentGone, func(ctx context.Context) error {
		list, err := p.copies(ctx)
		if err == nil && len(list) > 0 {
			err = fmt.Errorf("%d copies are left", len(list))
		}
		return err
	})
	if err != nil {
		t.Errorf("not within %s of their agent's end: %v", agentGone, err)
	}
}

// agentGone bounds how long copies outlive their agent: the watch, their grace
// period of a second, and a kubelet that has much to do.
const agentGone = 15 * time.Second
