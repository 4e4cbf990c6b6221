package escape

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// shareProgram takes what it gets of one processor for a while, with as many
// processes as it is told, each in a session of its own, and prints how much.
//
//go:embed share.py
var shareProgram string

const (
	bombProcesses = 40
	contestTime   = 2 * time.Second
	firstLead     = 2 * time.Second // for all to be there when it begins
	lastLead      = 32 * time.Second
)

// A program that forks, and leaves its session in each process, gets no more of
// the processors than a neighbour with one process; and all programs together
// get no more of one than the service. Without the layer they get nearly all.
//
// All have the same processor and the same time: what else the machine has to do
// takes from each, and leaves their shares as they are. So this runs beside no
// other test, but may run beside anything in another session.
func TestShares(t *testing.T) {
	// As on a machine with one processor, where all sandboxes weigh as much as one
	// thread of the service.
	with := func() *machine {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		return newMachine(t, false)
	}()
	if by := with.driver.CPUBy(); by != "cgroup" {
		t.Logf("nothing to test: the processors are divided by %s here", by)
		return
	}
	without, fresh := newMachine(t, false, "cpu"), newMachine(t, true)
	lead := firstLead
	f := func(least, most float64, few rival, many ...rival) {
		t.Helper()
		got := contest(t, &lead, append(many, few)...)
		var all float64
		for _, seconds := range got {
			all += seconds
		}
		share := got[len(many)] / all
		t.Logf("%.3f of the processor's %.3f s", share, all)
		if share < least || share > most {
			t.Errorf("the share is %.3f of %.3v s, not within %v and %v", share, got, least, most)
		}
	}
	// A neighbour: a half is its due, and one of 41 parts what it gets otherwise.
	f(0.35, 0.65, program(with, 1), program(with, bombProcesses))
	f(0, 0.15, program(without, 1), program(without, bombProcesses))
	f(0.35, 0.65, program(fresh, 1), program(fresh, bombProcesses))
	// The service, some of whose other threads may be busy: a half is its due. In
	// version 2 the sandboxes' memory cgroups have one above them that groups
	// them as well.
	without = newMachine(t, false, "cpu", "memory")
	f(0.25, 1, service, program(with, bombProcesses), program(with, bombProcesses))
	f(0, 0.15, service, program(without, bombProcesses), program(without, bombProcesses))
}

// contestOf is when, and on which processor.
type contestOf struct {
	processor  int
	begin, end time.Duration // of the monotonic clock, which is one for all programs
}

// contested is what one rival got.
type contested struct {
	Late      bool
	Processes int
	Seconds   float64
}

type rival func(context.Context, contestOf) (contested, error)

// contest has all contend at once, again with more time to get there when any
// came late, and tells the seconds that each got.
func contest(t *testing.T, lead *time.Duration, rivals ...rival) []float64 {
	t.Helper()
	for ; *lead <= lastLead; *lead *= 2 {
		c := contestOf{processor: firstProcessor(t)}
		c.begin = clock(unix.CLOCK_MONOTONIC) + *lead
		c.end = c.begin + contestTime
		if seconds, late := contestOnce(t, c, rivals); !late {
			return seconds
		}
	}
	t.Fatalf("no contest with all in time, not even after %s", lastLead)
	return nil
}

func contestOnce(t *testing.T, c contestOf, rivals []rival) (seconds []float64, late bool) {
	t.Helper()
	type answer struct {
		i   int
		got contested
		err error
	}
	answers := make(chan answer)
	for i, r := range rivals {
		go func() {
			got, err := r(t.Context(), c)
			answers <- answer{i, got, err}
		}()
	}
	seconds = make([]float64, len(rivals))
	var failed []error
	for range rivals {
		a := <-answers
		if a.err != nil {
			failed = append(failed, a.err)
		}
		seconds[a.i] = a.got.Seconds
		late = late || a.got.Late
	}
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	return seconds, late
}

// program contends in a sandbox of its own.
func program(m *machine, processes int) rival {
	return func(ctx context.Context, c contestOf) (got contested, err error) {
		req := &wire.Request{Code: shareProgram, TimeoutSeconds: 60, Env: map[string]string{
			"PROCESSES": strconv.Itoa(processes), "PROCESSOR": strconv.Itoa(c.processor),
			"BEGIN": fmt.Sprintf("%.6f", c.begin.Seconds()), "END": fmt.Sprintf("%.6f", c.end.Seconds()),
		}}
		res, err := m.Run(ctx, req)
		if err != nil {
			return got, err
		}
		if err = json.Unmarshal([]byte(res.Stdout), &got); err != nil || got.Processes != processes {
			return got, fmt.Errorf("a program of %d processes: %s", processes, describe(res))
		}
		return got, nil
	}
}

// service contends in this process, which the driver is in, with one thread.
func service(_ context.Context, c contestOf) (got contested, err error) {
	runtime.LockOSThread() // and ends with it
	var set unix.CPUSet
	set.Set(c.processor)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return got, err
	}
	early := c.begin - clock(unix.CLOCK_MONOTONIC)
	if early < 0 {
		return contested{Late: true}, nil
	}
	time.Sleep(early)
	used := clock(unix.CLOCK_THREAD_CPUTIME_ID)
	for clock(unix.CLOCK_MONOTONIC) < c.end {
	}
	return contested{Processes: 1, Seconds: (clock(unix.CLOCK_THREAD_CPUTIME_ID) - used).Seconds()}, nil
}

func clock(id int32) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(id, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

// firstProcessor is one that this process, and so each program, may use.
func firstProcessor(t *testing.T) int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; ; cpu++ {
		if set.IsSet(cpu) {
			return cpu
		}
	}
}
