package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

// again is how long a daemon that ended waits before it is started again.
const again = 300 * time.Millisecond

// keeper runs daemons, and reaps every process that is left to the node's
// first one. It reaps by itself, without os/exec, which would race with it.
type keeper struct {
	plan  Plan
	log   hclog.Logger
	gates map[string]*gate

	mu    sync.Mutex
	exits map[int]chan<- syscall.WaitStatus
}

func newKeeper(p Plan, log hclog.Logger) *keeper {
	k := &keeper{plan: p, log: log, gates: map[string]*gate{}, exits: map[int]chan<- syscall.WaitStatus{}}
	for _, r := range p.Ready {
		k.gates[r.Name] = newGate(r)
	}
	return k
}

func (k *keeper) run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, d := range k.plan.Daemons {
		path, err := exec.LookPath(d.Args[0])
		if err != nil {
			return fmt.Errorf("cannot find the program of %q: %w", d.Name, err)
		}
		wg.Go(func() { k.keep(ctx, d, path) })
	}
	k.reap(ctx)
	wg.Wait()
	return ctx.Err()
}

// keep starts the daemon each time it ended, and writes what it prints to a
// file of its own.
func (k *keeper) keep(ctx context.Context, d Daemon, path string) {
	for _, name := range d.After {
		if err := k.gates[name].wait(ctx); err != nil {
			return
		}
	}
	for ctx.Err() == nil {
		exit, err := k.start(d, path)
		if err != nil {
			k.log.Error("cannot start a daemon", "daemon", d.Name, "error", err)
		} else {
			status := <-exit
			k.log.Warn("daemon ended", "daemon", d.Name, "how", describe(status))
		}
		time.Sleep(again)
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "killed by signal " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// start holds the lock for as long as a child exists that nobody waits for.
func (k *keeper) start(d Daemon, path string) (<-chan syscall.WaitStatus, error) {
	out, err := os.OpenFile(filepath.Join(Work, "log", d.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	pid, err := syscall.ForkExec(path, d.Args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
	})
	if err != nil {
		return nil, err
	}
	exit := make(chan syscall.WaitStatus, 1)
	k.exits[pid] = exit
	return exit, nil
}

// reap takes every child that ended, those of daemons that are gone as well.
func (k *keeper) reap(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for {
		k.reapAll()
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

func (k *keeper) reapAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
		if exit, ok := k.exits[pid]; ok {
			delete(k.exits, pid)
			exit <- status
		}
	}
}
