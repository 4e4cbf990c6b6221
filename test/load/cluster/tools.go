package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/load"
)

const (
	// toolGap is what a copy has to become warm: its pod's start, the import of its
	// framework, and the proof.
	toolGap = 8 * time.Second
	// coldGap is beyond the time for which the pool takes two calls at once for many,
	// and keeps one warm copy more.
	coldGap = 22 * time.Second
)

// measureTools calls a LangChain tool in an agent's pod, in its own process, in
// copies that are warm, and in copies that are made for the call.
func measureTools(ctx context.Context, e *Env, p *Platform, sheet *load.Sheet) error {
	err := p.install(ctx, settings{"injector.replicas": "1", "pool.max": "8"})
	if err != nil {
		return err
	}
	chart := filepath.Join(filepath.Dir(p.chart), "agent-namespace")
	if out, err := p.program(ctx, "helm", "upgrade", "--install", "agents", chart, "--namespace", agentsSpace, "--set", "platformNamespace="+systemSpace); err != nil {
		return fmt.Errorf("cannot install the agents' chart: %w: %s", err, out)
	}
	err = e.eachRound(ctx, func() error {
		own, err := p.ownCalls(ctx, e.Samples)
		if err != nil {
			return err
		}
		return p.copyCalls(ctx, e, sheet, own)
	})
	out, undone := p.program(context.WithoutCancel(ctx), "helm", "uninstall", "agents", "--namespace", agentsSpace)
	if undone != nil {
		undone = fmt.Errorf("cannot uninstall the agents' chart: %w: %s", undone, out)
	}
	return errors.Join(err, undone)
}

// ownCalls are calls that the agent runs itself.
func (p *Platform) ownCalls(ctx context.Context, count int) (took []time.Duration, err error) {
	err = p.withTools(ctx, "off", func() error {
		took, err = p.times(ctx, "each", count, 0)
		return err
	})
	return took, err
}

// copyCalls are calls in copies, warm and cold, and plain pods of the same image.
func (p *Platform) copyCalls(ctx context.Context, e *Env, sheet *load.Sheet, own []time.Duration) error {
	var warm, cold, imports []time.Duration
	var like *corev1.Pod
	var proof time.Duration
	count := max(5, e.Samples/5)
	err := p.withTools(ctx, "enforce", func() (err error) {
		if warm, err = p.times(ctx, "each", count, toolGap); err != nil {
			return err
		}
		waited, err := p.coldCalls(ctx)
		if err != nil {
			return err
		}
		sheet.AddLatency(partTools, "in the agent's process", own)
		sheet.AddLatency(partTools, "in a copy", warm)
		sheet.Add(partTools, "more than in process, p50", "ms", load.Milliseconds(load.Quantile(warm, 0.5)-load.Quantile(own, 0.5)))
		sheet.Add(partTools, "calls that found no warm copy, of "+strconv.Itoa(count+1), "", float64(waited))
		if cold, proof, err = p.coldTools(ctx, e.Cold, waited); err != nil {
			return err
		}
		if like, err = p.plainCopy(ctx); err != nil {
			return err
		}
		imports, err = p.times(ctx, "import", e.Cold, 0)
		return err
	})
	if err != nil {
		return err
	}
	var plain []time.Duration
	for i := range e.Cold {
		life, err := p.bareLife(ctx, like, bareName(i))
		if err != nil {
			return err
		}
		plain = append(plain, life.ready.Sub(life.made))
	}
	half := func(times []time.Duration) time.Duration { return load.Quantile(times, 0.5) }
	add := func(name string, d time.Duration) { sheet.Add(partTools, name, "ms", load.Milliseconds(d)) }
	add("cold: call to answer", half(cold))
	add("cold: plain pod of the same image, created to Ready", half(plain))
	add("cold: start of the interpreter and import, in the agent's container", half(imports))
	add("cold: proof of the network, mean", proof)
	add(coldMore, half(cold)-half(plain)-half(imports)-proof)
	return nil
}

// coldMore has the bound on copies that are made for their call.
const coldMore = "cold: more than plain pod, import and proof"

// coldTools are calls that come right after another, which has used the warm copy
// up. waited is how many calls had found none before.
func (p *Platform) coldTools(ctx context.Context, count, waited int) (took []time.Duration, proof time.Duration, err error) {
	before, err := p.poolPhases(ctx)
	if err != nil {
		return nil, 0, err
	}
	if took, err = p.times(ctx, "second", count, coldGap); err != nil {
		return nil, 0, err
	}
	now, err := p.coldCalls(ctx)
	if err != nil {
		return nil, 0, err
	}
	if now-waited < count {
		return nil, 0, fmt.Errorf("of %d calls that came right after another only %d waited for their copy", count, now-waited)
	}
	after, err := p.poolPhases(ctx)
	if err != nil {
		return nil, 0, err
	}
	n := after.count["proof"] - before.count["proof"]
	return took, seconds((after.sum["proof"] - before.sum["proof"]) / max(1, n)), nil
}

// plainCopy is a pod of the same spec as the copies that are there, which does
// nothing.
func (p *Platform) plainCopy(ctx context.Context) (pod *corev1.Pod, err error) {
	err = within(ctx, "there is a copy to compare with", func() error {
		list, err := p.kube.CoreV1().Pods(agentsSpace).List(ctx, metav1.ListOptions{LabelSelector: "code-sandbox.dev/copy=true"})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("there is none")
		}
		if err == nil {
			pod = plain(list.Items[0].Spec)
		}
		return err
	})
	return pod, err
}

// poolPhases are the pool's sums, asked for from the agent with the tool.
func (p *Platform) poolPhases(ctx context.Context) (phases, error) {
	said, err := p.inAgent(ctx, "python3", "-I", "-c", fetching, "http://code-sandbox-pool."+systemSpace+".svc:8902/metrics")
	if err != nil {
		return phases{}, err
	}
	return readPhases(said), nil
}

const fetching = `import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())`

const toolsAgent = "tools"

// withTools gives f an agent that has a tool.
func (p *Platform) withTools(ctx context.Context, mode string, f func() error) (err error) {
	pod := p.agentPod(toolsAgent, false)
	pod.Annotations = map[string]string{"code-sandbox.dev/tools": mode}
	pod.Spec.Containers[0].Image = p.state.Images["agent-code"]
	if _, err := p.kube.CoreV1().Pods(agentsSpace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("cannot make an agent: %w", err)
	}
	defer func() { err = errors.Join(err, p.remove(context.WithoutCancel(ctx), toolsAgent)) }()
	err = within(ctx, "the agent is ready", func() error {
		now, err := p.kube.CoreV1().Pods(agentsSpace).Get(ctx, toolsAgent, metav1.GetOptions{})
		if err == nil && !isReady(now) {
			err = errors.New("it is not ready")
		}
		return err
	})
	if err != nil {
		return err
	}
	return f()
}

// times has the agent measure what measure_agent.py calls by that word.
func (p *Platform) times(ctx context.Context, what string, count int, gap time.Duration) (took []time.Duration, err error) {
	said, err := p.inAgent(ctx, "python3", "measure_agent.py", what, strconv.Itoa(count), fmt.Sprint(gap.Seconds()))
	if err != nil {
		return nil, err
	}
	var all []float64
	if err := json.Unmarshal([]byte(lastLine(said)), &all); err != nil {
		return nil, fmt.Errorf("cannot read what the agent says: %w: %q", err, said)
	}
	for _, s := range all {
		took = append(took, seconds(s))
	}
	return took, nil
}

var coldCount = regexp.MustCompile(`code_sandbox_tool_call_seconds_count\{start="cold"\} (\d+)`)

// coldCalls asks the sidecar how many calls waited for their copy.
func (p *Platform) coldCalls(ctx context.Context) (int, error) {
	said, err := p.inAgent(ctx, "python3", "-I", "-c", fetching, "http://127.0.0.1:8902/metrics")
	if err != nil {
		return 0, err
	}
	if found := coldCount.FindStringSubmatch(said); found != nil {
		return strconv.Atoi(found[1])
	}
	if !strings.Contains(said, "code_sandbox_tool_call_seconds_count") {
		return 0, errors.New("the sidecar does not say how many calls were cold")
	}
	return 0, nil
}

func (p *Platform) inAgent(ctx context.Context, command ...string) (string, error) {
	args := append([]string{"exec", "--namespace", agentsSpace, toolsAgent, "--container", "main", "--"}, command...)
	out, err := p.program(ctx, "kubectl", args...)
	if err != nil {
		return "", fmt.Errorf("cannot run %q in the agent: %w: %s", command[0], err, out)
	}
	return out, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
