//go:build e2e

package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/cluster"
)

// ended is what came of one call of counted_agent.py.
type ended struct {
	Name, Value, Type, Code, Executed, Message string
}

// counted is what one agent said of its calls.
type counted struct {
	Host  string
	Calls []ended
}

const (
	agentsAtOnce = 2
	callsEach    = 50
	threadsEach  = 4
)

// A hundred calls on two replicas of the pool, of which the one that serves is
// killed: no body runs twice, none in the agent, and each caller has a value or an
// error that is right about whether its body ran. Bodies are counted by the world,
// which each of them tells before it does anything else.
func (p *platform) testKilled(t *testing.T) {
	p.replicas(t, 2)
	defer p.replicas(t, 1)
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	for i := range agentsAtOnce {
		name := fmt.Sprintf("counted-%d", i)
		p.agents.Create(annotate(p.agent(name, "python3", "-u", "counted_agent.py", run+"-"+strconv.Itoa(i), strconv.Itoa(callsEach), strconv.Itoa(threadsEach)),
			"tool-functions", "bodies:told", "grants", "told=world.example:80", "tool-memory", "128Mi"))
	}
	p.agents.EventuallyIn(patience, "the bodies run", func(ctx context.Context) error {
		ran, err := p.ran(ctx, run)
		if err == nil && len(ran) < 20 {
			err = fmt.Errorf("%d have begun", len(ran))
		}
		return err
	})
	p.system.Kill(p.serving(t), "pool")
	values, maybe := 0, 0
	var agents []counted
	for i := range agentsAtOnce {
		agents = append(agents, p.counted(t, fmt.Sprintf("counted-%d", i)))
	}
	ran, err := p.ran(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		if len(a.Calls) != callsEach {
			t.Errorf("%s tells of %d calls", a.Host, len(a.Calls))
		}
		for _, c := range a.Calls {
			f := func(least, most int) {
				t.Helper()
				if n := len(ran[c.Name]); n < least || n > most {
					t.Errorf("the body of %+v ran in %q", c, ran[c.Name])
				}
			}
			switch {
			case c.Value == "world":
				values++
				f(1, 1)
			case c.Type == "SandboxUnavailable" && c.Executed == "maybe" && c.Code == "sandbox_lost":
				maybe++
				f(0, 1)
			case c.Type == "SandboxUnavailable" && c.Executed == "no":
				f(0, 0)
			default:
				t.Errorf("a call ended with %+v", c)
			}
			for _, host := range ran[c.Name] {
				if host == a.Host {
					t.Errorf("%s ran in its agent", c.Name)
				}
			}
		}
	}
	t.Logf("%d values, %d lost while they ran, %d refused before", values, maybe, agentsAtOnce*callsEach-values-maybe)
	if maybe > agentsAtOnce*threadsEach {
		t.Errorf("%d calls were lost; at most %d were in flight", maybe, agentsAtOnce*threadsEach)
	}
}

// replicas makes the pool have that many, all ready.
func (p *platform) replicas(t *testing.T, n int) {
	t.Helper()
	p.system.Scale("code-sandbox-pool", n)
	p.system.EventuallyIn(patience, fmt.Sprintf("%d replicas of the pool are ready", n), func(ctx context.Context) error {
		d, err := p.system.Kube.AppsV1().Deployments(p.system.Name).Get(ctx, "code-sandbox-pool", metav1.GetOptions{})
		if err == nil && (d.Status.Replicas != int32(n) || d.Status.ReadyReplicas != int32(n)) {
			err = fmt.Errorf("its status is %+v", d.Status)
		}
		return err
	})
}

// serving is the replica that has calls in flight.
func (p *platform) serving(t *testing.T) (name string) {
	t.Helper()
	p.system.Eventually("a replica serves", func(ctx context.Context) error {
		pods, err := p.system.Parts(ctx, "pool")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if n, err := p.system.Leased(ctx, pod.Status.PodIP); err == nil && n > 0 {
				name = pod.Name
				return nil
			}
		}
		return errNotYet
	})
	return name
}

// counted waits for what an agent says of its calls.
func (p *platform) counted(t *testing.T, name string) (c counted) {
	t.Helper()
	if err := json.Unmarshal(p.word(t, name, 2*patience), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// ran is where the bodies of this test's run have run, by the name of their call.
func (p *platform) ran(ctx context.Context, run string) (map[string][]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cluster.WorldIP+"/ran", nil)
	if err != nil {
		return nil, err
	}
	answer, err := p.agents.HTTP().Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var times map[string]int
	if err := json.NewDecoder(answer.Body).Decode(&times); err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for path, n := range times {
		name, host, _ := strings.Cut(path, "/")
		for range n {
			if strings.HasPrefix(name, run) {
				all[name] = append(all[name], host)
			}
		}
	}
	return all, nil
}
