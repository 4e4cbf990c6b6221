package pool

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// The order in which those who wait are served.
func TestQueueOrder(t *testing.T) {
	// Callers are named tenant/name; want numbers their claims.
	f := func(arrivals, want string) {
		t.Helper()
		q := queue{}
		numbers := map[*waiter]string{}
		for i, name := range strings.Fields(arrivals) {
			tenant, name, _ := strings.Cut(name, "/")
			w := &waiter{caller: Caller{Tenant: tenant, Name: name}}
			numbers[w] = fmt.Sprint(i)
			q.push(w)
		}
		var got []string
		for w := q.pop(); w != nil; w = q.pop() {
			got = append(got, numbers[w])
		}
		if strings.Join(got, " ") != want || !q.empty() || q.size() != 0 {
			t.Errorf("%s are served in the order %v, want %s", arrivals, got, want)
		}
	}
	// One caller: order of arrival.
	f("a/x a/x a/x", "0 1 2")
	// A greedy caller, then a modest one of the same tenant.
	f("a/x a/x a/x a/x a/y", "0 4 1 2 3")
	// A tenant with many callers has no more turns than one with a single caller.
	f("a/x a/y a/z b/u b/u", "0 3 1 4 2")
	// The same name in two tenants is two callers.
	f("a/x a/x b/x", "0 2 1")
	f("", "")
}

// A caller's claims have their turns as their requests came, whichever was
// looked at first.
func TestQueueOrderOfArrival(t *testing.T) {
	q, start := queue{}, time.Now()
	for _, after := range []int{3, 1, 2, 0, 2} {
		q.push(&waiter{caller: Caller{Tenant: "a", Name: "x"}, arrived: start.Add(time.Duration(after))})
	}
	var got []time.Duration
	for w := q.pop(); w != nil; w = q.pop() {
		got = append(got, w.arrived.Sub(start))
	}
	if want := []time.Duration{0, 1, 2, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("served in the order %v, want %v", got, want)
	}
}

func TestQueueRemove(t *testing.T) {
	q := queue{}
	var all []*waiter
	for _, name := range []string{"x", "x", "y"} {
		w := &waiter{caller: Caller{Tenant: "a", Name: name}}
		all = append(all, w)
		q.push(w)
	}
	if !q.remove(all[0]) || q.remove(all[0]) || q.size() != 2 {
		t.Errorf("removed wrongly, %d are left", q.size())
	}
	if w := q.pop(); w != all[1] {
		t.Error("the turn of others changed")
	}
	if !q.remove(all[2]) || !q.empty() || q.pop() != nil {
		t.Error("the queue is not empty")
	}
}

func TestPlan(t *testing.T) {
	f := func(room int, wantStarts, wantUnmet []int, all ...stock) {
		t.Helper()
		for i := range all {
			if all[i].most == 0 {
				all[i].most = 8
			}
		}
		has, total := newShares(), 0
		starts, unmet := plan(all, room, has)
		if !slices.Equal(starts, wantStarts) || !slices.Equal(unmet, wantUnmet) {
			t.Errorf("starts %v and leaves %v, want %v and %v", starts, unmet, wantStarts, wantUnmet)
		}
		for _, n := range starts {
			total += n
		}
		if has.callers[Caller{}] != total {
			t.Errorf("%d of %d starts are counted for whoever gives way next", has.callers[Caller{}], total)
		}
	}
	// At first: the target.
	f(8, []int{3}, []int{0}, stock{wanted: 3})
	// What is asked for already is not asked for again.
	f(8, []int{0}, []int{0}, stock{wanted: 3, starting: 2, warm: 1})
	f(8, []int{1}, []int{0}, stock{wanted: 3, starting: 2})
	// Those who wait, and the target beyond.
	f(8, []int{4}, []int{0}, stock{wanted: 3, waiting: 2, starting: 1})
	// Never beyond the room.
	f(2, []int{2}, []int{3}, stock{wanted: 3, waiting: 5})
	f(0, []int{0}, []int{5}, stock{wanted: 3, waiting: 5})
	f(-1, []int{0}, []int{0}, stock{wanted: 3})
	// Those who wait come before the stock of another template.
	f(2, []int{0, 2}, []int{0, 0}, stock{wanted: 3}, stock{wanted: 1, waiting: 2, turn: 9})
	// Templates take turns, the one whose last start is longest ago first.
	f(3, []int{1, 2}, []int{3, 2}, stock{wanted: 3, waiting: 4, turn: 2}, stock{wanted: 3, waiting: 4, turn: 1})
	// A template that fails gets its one probe, and those who wait for it beyond
	// that ask for no room.
	f(8, []int{1}, []int{0}, stock{wanted: 3, waiting: 4, most: 1})
}

func TestNeed(t *testing.T) {
	f := func(rate float64, toWarm time.Duration, want int) {
		t.Helper()
		if got := need(rate, toWarm); got != want {
			t.Errorf("need(%v, %v) is %d, want %d", rate, toWarm, got, want)
		}
	}
	f(0, time.Second, 0)
	f(10, 0, 0)
	// A pod that takes 350 ms, 20 claims a second: seven, and a margin of 5.3.
	f(20, 350*time.Millisecond, 13)
	// A process tree that takes 5 ms, 200 claims a second.
	f(200, 5*time.Millisecond, 3)
}

// One burst is no demand; the same number spread over time is.
func TestRate(t *testing.T) {
	f := func(want float64, seconds ...int) {
		t.Helper()
		d := demand{}
		for _, n := range seconds {
			d.arrivals = n
			d.roll()
		}
		if got := d.rate(); math.Abs(got-want) > 0.01 {
			t.Errorf("rate of %v is %v, want %v", seconds, got, want)
		}
	}
	f(0)
	f(0, 30)
	f(5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5)
	// Only the last ten seconds count.
	f(0, 50, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}

func TestRetarget(t *testing.T) {
	now := time.Now()
	d := demand{toWarm: time.Second}
	for range 10 {
		d.arrivals = 9
		d.roll()
	}
	if got := d.retarget(3, 3, 32, now); got != 15 {
		t.Errorf("grown to %d, want 15", got)
	}
	if got := d.retarget(3, 3, 10, now); got != 10 {
		t.Errorf("grown to %d beyond the most, 10", got)
	}
	d.recent = [10]int{}
	if got := d.retarget(15, 3, 32, now.Add(9*time.Second)); got != 15 {
		t.Errorf("shrunk to %d at once", got)
	}
	if got := d.retarget(15, 3, 32, now.Add(10*time.Second)); got != 14 {
		t.Errorf("shrunk to %d, want 14", got)
	}
	if got := d.retarget(14, 3, 32, now.Add(11*time.Second)); got != 14 {
		t.Errorf("shrunk twice, to %d", got)
	}
	if got := d.retarget(3, 3, 32, now.Add(time.Hour)); got != 3 {
		t.Errorf("shrunk below the target, to %d", got)
	}
}

func TestBackoff(t *testing.T) {
	f := func(fails int, jitter float64, want time.Duration) {
		t.Helper()
		if got := backoff(fails, jitter); got != want {
			t.Errorf("backoff(%d, %v) is %v, want %v", fails, jitter, got, want)
		}
	}
	f(1, 0.5, 50*time.Millisecond)
	f(2, 0.5, 100*time.Millisecond)
	f(5, 0.5, 800*time.Millisecond)
	f(10, 0.5, 25600*time.Millisecond)
	f(11, 0.5, 30*time.Second)
	// Far beyond what a shift can hold.
	f(1000, 0.5, 30*time.Second)
	f(1, 0, 40*time.Millisecond)
	f(1, 1, 60*time.Millisecond)
}
