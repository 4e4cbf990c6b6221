package load

import (
	"context"
	"sync"
	"time"
)

// soakSnippets are programs whose failure would be the sandbox's doing: they
// use memory, threads and processes the way real ones do.
var soakSnippets = []snippet{
	{"import numpy as np\na = np.arange(250_000.0).reshape(500, 500)\nprint(int((a @ a.T).trace()) > 0)", "True\n"},
	{"import pandas as pd\ndf = pd.DataFrame({'k': ['a', 'b'] * 5000, 'v': range(10000)})\nprint(df.groupby('k').v.sum().to_dict())",
		"{'a': 24995000, 'b': 25000000}\n"},
	{"import threading\nout = []\nts = [threading.Thread(target=lambda i=i: out.append(i)) for i in range(16)]\n" +
		"[t.start() for t in ts]\n[t.join() for t in ts]\nprint(sorted(out) == list(range(16)))", "True\n"},
	{"from concurrent.futures import ThreadPoolExecutor\nimport numpy as np\n" +
		"with ThreadPoolExecutor(8) as e:\n    print(sum(e.map(lambda i: int(np.ones(1000).sum()) * i, range(8))))", "28000\n"},
	{"import subprocess\nprint(subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout.strip())", "hi\n"},
	{"import numpy as np, io\nb = io.BytesIO()\nnp.save(b, np.random.rand(1000))\nopen('a.npy', 'wb').write(b.getvalue())\nprint(len(b.getvalue()))", "8128\n"},
}

// holding is what a leak would show in.
type holding struct {
	processes, descriptors, cgroups int
	memory                          int64
}

// holds counts once the sandboxes are all warm again.
func (s *Service) holds(ctx context.Context) (holding, error) {
	// The last are taken apart, and made anew.
	if err := settle(ctx, 5*time.Second); err != nil {
		return holding{}, err
	}
	t := s.tree()
	service, _ := s.pssOf()
	return holding{
		processes: len(t[1]) + len(t[2]), descriptors: s.descriptors(), cgroups: len(s.cgroups()), memory: service,
	}, nil
}

// measureSoak runs thousands of real programs and compares what the service
// holds after a tenth of them with what it holds at the end. The number of warm
// sandboxes is fixed, so that it is the same both times.
func measureSoak(ctx context.Context, e *Env, sheet *Sheet) error {
	return e.withService(ctx, func(s *Service) error {
		sum, err := e.soak(s, e.SoakRuns/10)
		if err != nil {
			return err
		}
		before, err := s.holds(ctx)
		if err != nil {
			return err
		}
		rest, err := e.soak(s, e.SoakRuns-e.SoakRuns/10)
		if err != nil {
			return err
		}
		after, err := s.holds(ctx)
		if err != nil {
			return err
		}
		took := sum.took + rest.took
		sum.merge(rest)
		add := func(name, unit string, v float64) { sheet.Add(PartSoak, name, unit, v) }
		add("runs", "", float64(len(sum.times)+len(sum.errs)))
		add("runs that failed", "", float64(len(sum.errs)))
		add("sandboxes used twice", "", float64(sum.twice()))
		add("throughput", "runs/s", float64(len(sum.times))/took.Seconds())
		sheet.AddLatency(PartSoak, "latency, 4 callers", sum.times)
		add("processes more than before", "", float64(after.processes-before.processes))
		add("descriptors more than before", "", float64(after.descriptors-before.descriptors))
		add("cgroups more than before", "", float64(after.cgroups-before.cgroups))
		add("memory of the service more than before", "MiB", float64(after.memory-before.memory)/mebi)
		for _, err := range sum.errs[:min(5, len(sum.errs))] {
			e.Logf("a run failed: %v", err)
		}
		return nil
	}, "--python", e.Data, "--target", "8", "--max", "8")
}

// soak runs n programs, taking turns, with four callers.
func (e *Env) soak(s *Service, n int) (*tally, error) {
	const callers = 4
	requests := make([][]byte, len(soakSnippets))
	for i, snip := range soakSnippets {
		requests[i] = request(s.Addr, snip.code)
	}
	sum, start := newTally(), time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for caller := range callers {
		c, err := dial(s.Addr)
		if err != nil {
			return nil, err
		}
		defer c.close()
		wg.Go(func() {
			t := newTally()
			for i := caller; i < n; i += callers {
				kind := i % len(soakSnippets)
				t.one(c, requests[kind], soakSnippets[kind], time.Now())
			}
			mu.Lock()
			defer mu.Unlock()
			sum.merge(t)
		})
	}
	wg.Wait()
	sum.took = time.Since(start)
	return sum, nil
}
