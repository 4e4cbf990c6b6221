package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/code-sandbox/code-sandbox/test/load"
)

// The parts that can be measured; their names head the tables.
const (
	partWarm    = "warm: one agent, one run at a time"
	partHurried = "hurried: the same, while the node still replaces the last one's pod"
	partCold    = "cold: a run that waits for its pod, in turns with a plain pod"
	partRefill  = "refill: three callers on three sandboxes, in turns with three makers of plain pods"
	partBurst   = "burst: 30 callers at once, 3 sandboxes warm"
	partKill    = "kill: 100 runs on two replicas, of which the one that serves is killed"
	partTools   = "tools: a LangChain tool, called from an agent's pod"
	partSidecar = "sidecar"

	partAdmission = "admission: pods let in one after the other, in turns with and without the injector"
)

var bounds = []load.Bound{
	{Part: partWarm, Name: "print(1) from the agent's container, p50", Most: true, Limit: 8},
	{Part: partWarm, Name: "print(1) from the agent's container, p99", Most: true, Limit: 40},
	{Part: partWarm, Name: "errors", Most: true, Limit: 0},
	{Part: partHurried, Name: "errors", Most: true, Limit: 0},
	{Part: partCold, Name: kinds[0].name + ": more than the plain pod and the proof", Most: true, Limit: 150},
	{Part: partCold, Name: kinds[1].name + ": more than the plain pod and the proof", Most: true, Limit: 150},
	{Part: partRefill, Name: "share of the plain pods' rate", Limit: 0.9},
	{Part: partBurst, Name: "neither", Most: true, Limit: 0},
	{Part: partBurst, Name: "pods made", Most: true, Limit: burstCallers + 3},
	{Part: partKill, Name: "neither", Most: true, Limit: 0},
	{Part: partKill, Name: "sandboxes that served twice", Most: true, Limit: 0},
	{Part: partTools, Name: "more than in process, p50", Most: true, Limit: 15},
	{Part: partTools, Name: coldMore, Most: true, Limit: 200},
	{Part: partSidecar, Name: "what it adds", Most: true, Limit: 1500},
	{Part: partSidecar, Name: "resident memory, after runs with 100 kB of output each", Most: true, Limit: 20},
	{Part: partAdmission, Name: "pod let in, injected, p99", Most: true, Limit: 50},
}

// Env is how much is measured.
type Env struct {
	Rounds  int           // repetitions, of which the median is taken
	Samples int           // warm runs in one round
	Gap     time.Duration // between warm runs
	Cold    int           // pods of each kind in one round
	Length  time.Duration // of a load in one round
	Logf    func(format string, args ...any)
}

var parts = []struct {
	name, title string
	measure     func(context.Context, *Env, *Platform, *load.Sheet) error
}{
	{"warm", partWarm, measureWarm},
	{"hurried", partHurried, measureHurried},
	{"cold", partCold, measureCold},
	{"refill", partRefill, measureRefill},
	{"burst", partBurst, measureBurst},
	{"kill", partKill, measureKill},
	{"tools", partTools, measureTools},
	{"sidecar", partSidecar, measureSidecar},
	{"admission", partAdmission, measureAdmission},
}

// Names are the names of all parts on a command line.
func Names() []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// Measure takes the figures of the named parts. The sheet holds what was
// measured, whatever the error says could not be; check compares them with
// their bounds too.
func Measure(ctx context.Context, e *Env, p *Platform, names []string, check bool) (*load.Sheet, error) {
	sheet := &load.Sheet{Machine: load.ThisMachine(), Bounds: bounds}
	var errs []error
	var titles []string
	for _, name := range names {
		i := slices.Index(Names(), name)
		if i < 0 {
			return sheet, fmt.Errorf("there is no part %q; there are %q", name, Names())
		}
		e.Logf("measuring %s", parts[i].title)
		titles = append(titles, parts[i].title)
		began := time.Now()
		if err := parts[i].measure(ctx, e, p, sheet); err != nil {
			errs = append(errs, fmt.Errorf("cannot measure %s: %w", parts[i].title, err))
		}
		e.Logf("measured in %s", time.Since(began).Round(time.Second))
	}
	sheet.Machine.Done()
	if check {
		errs = append(errs, sheet.Check(titles))
	}
	return sheet, errors.Join(errs...)
}

func (e *Env) eachRound(ctx context.Context, f func() error) error {
	for i := range e.Rounds {
		if err := sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		if err := f(); err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	return nil
}
