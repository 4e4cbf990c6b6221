// Package pool keeps one-use sandboxes ready and gives each run its own.
//
// A run claims a sandbox from the warm pool in memory, the pool refills at
// once, and the sandbox is destroyed when the run has ended. Nothing is ever
// used twice.
package pool

import "errors"

// ErrUsed refuses a second run in one sandbox.
var ErrUsed = errors.New("the sandbox has served its one run")

// Caller is who asked for a run: the unit of fairness.
type Caller struct {
	// Tenant groups callers: a namespace on a cluster.
	Tenant string
	// Name is unique within the tenant: a pod on a cluster.
	Name string
}
