package escape

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

//go:embed prelude.py
var prelude string

// row is one hostile program. It prints a line for each thing that it could do
// and should not have been able to, then "held".
type row struct {
	name string
	// layer says what stops it.
	layer string
	// without are the layers to leave out, so that this row fails. Several are
	// named where one is the second line behind another.
	without []string
	// outside, for what the runner stops, which cannot be left out: the program
	// gets through where it runs outside of any sandbox, with a simple runner.
	outside bool
	// user says that outside it gets through for a service without root only.
	user    bool
	code    string
	timeout float64 // seconds; 10 when zero

	// want judges the answer; nil wants "held" and nothing else. An empty
	// string is good.
	want func(*wire.Result) string
	// host sets something up on this machine, for the program to find by its
	// environment, and afterwards says what happened to it.
	host func(*testing.T, target) (env map[string]string, check func() string)
	// pod says why the layer is not around a pod, or not the same, and what that
	// means: such a row is run there, and told, but not held against it.
	pod string
	// shared says the same of pods that share user ids with others of their node;
	// those with a user namespace of their own must hold it.
	shared string
	// gvisor says the same of pods in gVisor, whose kernel is the pod's own.
	gvisor string
	// here says why such a row has no meaning on a cluster, and what shows the
	// same there.
	here string
	// beside runs in two other sandboxes, from before the program until after
	// it, and must hold as well.
	beside string
	// busy wants that a harmless program beside this one is answered in time.
	busy bool
}

// neighbourBound is for a whole run of a harmless program, on a loaded machine.
const neighbourBound = 5 * time.Second

// slow is a target that needs longer than that for a sandbox.
type slow interface{ patience() time.Duration }

// try runs the row on a target and says what went wrong; empty when it was stopped.
func (r row) try(t *testing.T, on target) string {
	t.Helper()
	bound := 60 * time.Second
	if s, ok := on.(slow); ok {
		bound += 2 * s.patience()
	}
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	req := &wire.Request{Code: prelude + r.code + "\nprint('held')\n", TimeoutSeconds: r.timeout, Env: map[string]string{}}
	if r.timeout == 0 {
		req.TimeoutSeconds = 10
	}
	check := func() string { return "" }
	if r.host != nil {
		req.Env, check = r.host(t, on)
	}
	finish := r.company(ctx, on)
	res, err := on.Run(ctx, req)
	company := finish()
	if err != nil {
		return "no answer: " + err.Error()
	}
	judge := r.want
	if judge == nil {
		judge = held
	}
	var wrong []string
	for _, w := range []string{judge(res), company, check()} {
		if w != "" {
			wrong = append(wrong, w)
		}
	}
	return strings.Join(wrong, "; ")
}

// company starts what runs beside the row; the returned function waits for it.
func (r row) company(ctx context.Context, on target) (finish func() string) {
	done := make(chan struct{})
	var group sync.WaitGroup
	wrong := make(chan string, 100)
	if r.beside != "" {
		for range 2 { // of the driver's two zygotes, the program shares one with the first
			group.Go(func() {
				res, err := on.Run(ctx, &wire.Request{Code: prelude + r.beside + "\nprint('held')\n", TimeoutSeconds: 10})
				wrong <- judgeOther("the sandbox beside it", res, err)
			})
		}
		time.Sleep(700 * time.Millisecond)
	}
	if r.busy {
		group.Go(func() {
			for n := 0; n < 20; n++ {
				begun := time.Now()
				res, err := on.Run(ctx, &wire.Request{Code: "print('held')", TimeoutSeconds: 10})
				wrong <- judgeOther("the neighbour", res, err)
				bound := neighbourBound
				if s, ok := on.(slow); ok {
					bound = s.patience()
				}
				if took := time.Since(begun); took > bound {
					wrong <- fmt.Sprintf("the neighbour waited %s", took)
				}
				select {
				case <-done:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	return func() string {
		close(done)
		group.Wait()
		close(wrong)
		for w := range wrong {
			if w != "" {
				return w
			}
		}
		return ""
	}
}

func judgeOther(who string, res *wire.Result, err error) string {
	if err != nil {
		return who + ": " + err.Error()
	}
	if w := held(res); w != "" {
		return who + ": " + w
	}
	return ""
}

// held wants a program that ended well and could do nothing it should not.
func held(res *wire.Result) string {
	if res.Outcome != wire.OK || res.Stdout != "held\n" {
		return describe(res)
	}
	return ""
}

// ends wants one of some outcomes, and no word of a success.
func ends(outcomes ...wire.Outcome) func(*wire.Result) string {
	return func(res *wire.Result) string {
		for _, o := range outcomes {
			if res.Outcome == o && !strings.Contains(res.Stdout, "could") {
				return ""
			}
		}
		return describe(res)
	}
}

func describe(res *wire.Result) string {
	return fmt.Sprintf("outcome %s, exit code %d, stdout %.600q, stderr %.600q", res.Outcome, res.ExitCode, res.Stdout, res.Stderr)
}

// leftRunning finds processes of this machine by a word in their command line.
func leftRunning(word string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), word) {
			pids = append(pids, strings.Split(f, "/")[2])
		}
	}
	return pids
}
