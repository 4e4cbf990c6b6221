//go:build e2e

package runs

import (
	"sync"
	"testing"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// ids counts how often each sandbox has served.
type ids struct {
	mu     sync.Mutex
	served map[string]int
}

func (i *ids) add(a e2e.Answer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.served == nil {
		i.served = map[string]int{}
	}
	i.served[a.SandboxID]++
}

// once fails the test when a sandbox has served twice, or fewer have served
// than must have for that to say something.
func (i *ids) once(t *testing.T, least int) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, n := range i.served {
		if n > 1 {
			t.Errorf("the sandbox %s served %d times", id, n)
		}
	}
	if len(i.served) < least {
		t.Errorf("only %d runs were served", len(i.served))
	}
}

// No sandbox serves twice, on two replicas and for several agents: each
// program leaves marks and looks for those of others.
func TestP02NoneServesTwice(t *testing.T) {
	p := use(t, nil)
	const marks = `
import os
places = ["/tmp/mark", "mark", "/dev/shm/mark"]
print([p for p in places if os.path.exists(p)])
for p in places:
    open(p, "w").write("x")
`
	var seen ids
	var all sync.WaitGroup
	for _, name := range []string{"first", "second", "third"} {
		url := p.agent(t, name)
		for range 2 {
			all.Go(func() {
				for range 5 {
					a := call(t, url, marks)
					if a.Failure != nil || a.Stdout != "[]\n" || a.Outcome != "ok" {
						t.Errorf("%+v %+v", a, a.Failure)
						continue
					}
					seen.add(a)
				}
			})
		}
	}
	all.Wait()
	seen.once(t, 30)
}
