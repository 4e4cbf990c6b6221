package server

import (
	"syscall"
	"time"
)

// wall makes wait4 see children of every kind, whatever signal their end sends.
const wall = 0x40000000

// tree is all processes of the pod but the runner, which is process 1: whoever
// loses a parent becomes its child.
type tree struct {
	leader int                     // the interpreter
	spare  headroom                // until it has ended
	exited chan syscall.WaitStatus // how the interpreter ended, once
	gone   chan struct{}           // closed when no process is left
}

// watchTree reaps every child from now on. Nothing else of this process may
// wait for one.
func watchTree(leader int) *tree {
	t := &tree{
		leader: leader, spare: newHeadroom(), exited: make(chan syscall.WaitStatus, 1), gone: make(chan struct{}),
	}
	touchSignalStack()
	go t.reap()
	return t
}

func (t *tree) reap() {
	defer close(t.gone)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, wall, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: none is left, and so no descendant either
			return
		case pid == t.leader:
			t.spare.give()
			t.exited <- status
		}
	}
}

// kill ends everything but this process. The kernel signals all processes at
// once: none can fork away from it.
func (t *tree) kill() {
	_ = syscall.Kill(-1, syscall.SIGKILL) // it fails only when nothing is there
}

// end kills until nothing is left; false when it takes longer than limit.
func (t *tree) end(limit time.Duration) bool {
	deadline := time.After(limit)
	for again := time.NewTicker(5 * time.Millisecond); ; {
		t.kill()
		select {
		case <-t.gone:
			return true
		case <-deadline:
			return false
		case <-again.C:
		}
	}
}
