//go:build e2e

package inject

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The dashboard's and the alerts' queries find what they ask for in what pool,
// injector and sidecar really serve: their metrics are scraped twice, as
// Prometheus does, and a test of the charts' module puts each query to them.
func (p *platform) testQueries(t *testing.T) {
	s := p.agents(t)
	s.Create(s.Pod("agent", "probe", "sleep"))
	agent := s.WaitReady("agent").Status.PodIP
	s.Run(s.Forward("agent", 8900), "print(6 * 7)")
	pods, err := p.system.Parts(t.Context(), "pool", "injector")
	if err != nil || len(pods) != 4 {
		t.Fatalf("there are %d pods: %v", len(pods), err)
	}
	folder := t.TempDir()
	scrape := func(n int) {
		p.save(t, agent, filepath.Join(folder, fmt.Sprintf("sidecar-agent-%d", n)))
		for _, pod := range pods {
			part := pod.Labels["app.kubernetes.io/component"]
			p.save(t, pod.Status.PodIP, filepath.Join(folder, fmt.Sprintf("%s-%s-%d", part, pod.Name, n)))
		}
	}
	scrape(1)
	s.Run(s.Forward("agent", 8900), "raise SystemExit(3)")
	time.Sleep(time.Second) // two scrapes have two times
	scrape(2)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-tags", "e2e", "-run", "^TestQueriesOnScrapes$", ".")
	cmd.Dir = filepath.Join("..", "..", "charts")
	cmd.Env = append(os.Environ(), "CODE_SANDBOX_SCRAPES="+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// save keeps what a pod serves on its admin port.
func (p *platform) save(t *testing.T, ip, file string) {
	t.Helper()
	text, err := p.system.Metrics(t.Context(), ip)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
