package doctor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// aliveBound is how long an address may take to answer doctor itself, and
// aliveEvery how often it is asked: a Service that was just made needs a moment.
const aliveBound, aliveEvery = 5 * time.Second, 250 * time.Millisecond

// network dials each target from a sandbox. That it does not answer there shows
// something only when it answers here.
func (o Options) network(ctx context.Context) []Row {
	alive := o.alive(ctx)
	var all []string
	for _, t := range o.Targets {
		all = append(all, t.Addresses...)
	}
	var tried struct{ Said map[string]string }
	var err error
	if len(all) > 0 {
		err = ask(ctx, o.Service, dialProgram, all, &tried)
	}
	var rows []Row
	for _, t := range o.Targets {
		row := promise(t.Name)
		switch {
		case len(t.Addresses) == 0:
			row.none("%s", t.Missing)
		case err != nil:
			row.untried(err)
		default:
			t.judge(&row, tried.Said, alive)
		}
		rows = append(rows, row)
	}
	return rows
}

// judge compares what a sandbox reaches with what answers doctor.
func (t Target) judge(row *Row, said map[string]string, alive map[string]error) {
	var reached, closed, dead []string
	for _, address := range t.Addresses {
		answer, tried := said[address]
		switch {
		case answer == "open":
			reached = append(reached, address)
		case !tried:
			row.untried(fmt.Errorf("the program says nothing of %s", address))
			return
		case alive[address] == nil:
			closed = append(closed, address)
		default:
			dead = append(dead, fmt.Sprintf("%s (%v)", address, alive[address]))
		}
	}
	switch {
	case len(reached) > 0:
		row.open("a sandbox reaches "+strings.Join(reached, ", "), t.Change)
	case len(closed) > 0:
		row.protected("a sandbox does not reach %s, and doctor does", strings.Join(closed, ", "))
	default:
		row.none("neither a sandbox nor doctor reaches %s", strings.Join(dead, ", "))
	}
}

// alive says of each address why it does not answer doctor; nil if it does.
func (o Options) alive(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, aliveBound)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	answers := map[string]error{}
	for _, t := range o.Targets {
		for _, address := range t.Addresses {
			all.Go(func() {
				err := o.dialUntil(ctx, address)
				mu.Lock()
				defer mu.Unlock()
				answers[address] = err
			})
		}
	}
	all.Wait()
	return answers
}

// dialUntil dials until the address answers or the time is over; then it
// returns the first error, since the last may be that the time is over.
func (o Options) dialUntil(ctx context.Context, address string) error {
	first := o.Dial(ctx, address)
	for err := first; err != nil; err = o.Dial(ctx, address) {
		select {
		case <-ctx.Done():
			return first
		case <-time.After(aliveEvery):
		}
	}
	return nil
}
