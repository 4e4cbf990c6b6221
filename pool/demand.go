package pool

import (
	"math"
	"time"
)

const (
	// shrinkEvery is how long one sandbox more than needed is kept.
	shrinkEvery = 10 * time.Second
	backoffMin  = 50 * time.Millisecond
	backoffMax  = 30 * time.Second
)

// demand measures how fast sandboxes of one template are asked for and how
// long one takes to make. The zero value has seen nothing.
type demand struct {
	arrivals int     // since the last sweep
	recent   [10]int // arrivals in each of the last sweeps
	next     int
	toWarm   time.Duration // a moving mean
	shrunk   time.Time
}

// started takes note of how long a start took.
func (d *demand) started(took time.Duration) {
	if d.toWarm == 0 {
		d.toWarm = took
		return
	}
	d.toWarm += (took - d.toWarm) / 5
}

// roll closes a second.
func (d *demand) roll() {
	d.recent[d.next] = d.arrivals
	d.next = (d.next + 1) % len(d.recent)
	d.arrivals = 0
}

// rate is arrivals a second, the busiest second left out: one burst is served
// by the queue and is no reason to keep more warm from then on.
func (d *demand) rate() float64 {
	sum, most := 0, 0
	for _, n := range d.recent {
		sum += n
		most = max(most, n)
	}
	return float64(sum-most) / float64(len(d.recent)-1) / sweepEvery.Seconds()
}

// need is how many sandboxes are claimed while one is made, with a margin of
// two standard deviations of such arrivals.
func need(rate float64, toWarm time.Duration) int {
	mean := rate * toWarm.Seconds()
	return int(math.Ceil(mean + 2*math.Sqrt(mean)))
}

// retarget says how many to keep warm: more at once, fewer one by one.
func (d *demand) retarget(wanted, least, most int, now time.Time) int {
	n := min(max(need(d.rate(), d.toWarm), least), most)
	if n >= wanted {
		d.shrunk = now
		return n
	}
	if now.Sub(d.shrunk) < shrinkEvery {
		return wanted
	}
	d.shrunk = now
	return wanted - 1
}

// backoff is the pause after that many failures in a row: it doubles, and
// jitter (0 to 1) moves it by a fifth so that replicas do not retry together.
func backoff(fails int, jitter float64) time.Duration {
	d := backoffMax
	if shift := fails - 1; shift < 10 {
		d = min(d, backoffMin<<shift)
	}
	return time.Duration(float64(d) * (0.8 + 0.4*jitter))
}

// stock is what plan knows of one template.
type stock struct {
	waiting, warm, starting, wanted int
	// most bounds the starts asked for now; less than wanted while starts fail.
	most int
	turn uint64 // when it was last given a start
	// owner is whom the template is for.
	owner Caller
}

// short is how many starts the template lacks for those who wait, and in all.
func (s stock) short() (callers, all int) {
	return max(0, s.waiting-s.warm-s.starting), max(0, s.waiting+s.wanted-s.warm-s.starting)
}

// before says whether the template comes before another that is as urgent.
func (s stock) before(other stock, urgent bool, has shares) bool {
	if c := has.compare(s.owner, other.owner); c != 0 && !urgent {
		return c < 0
	}
	return s.turn < other.turn
}

// plan says how many sandboxes of each template to start when there is room
// for that many. Those who wait come before stock, and stock of who has least
// before that of others; among equals the template whose last start is longest
// ago. It also says for how many who wait for each there was no room. What is
// started is counted in has.
func plan(all []stock, room int, has shares) (starts, unmet []int) {
	starts, unmet = make([]int, len(all)), make([]int, len(all))
	for n := 0; n < room; n++ {
		best, urgent := -1, false
		for i, s := range all {
			callers, total := s.short()
			if total == 0 || starts[i] >= s.most {
				continue
			}
			if best < 0 || callers > 0 && !urgent || callers > 0 == urgent && s.before(all[best], urgent, has) {
				best, urgent = i, callers > 0
			}
		}
		if best < 0 {
			break
		}
		starts[best]++
		has.count(all[best].owner, 1)
		all[best].starting++
		all[best].turn = math.MaxUint64 - uint64(room-n)
	}
	for i, s := range all {
		callers, _ := s.short()
		unmet[i] = min(callers, s.most-starts[i])
	}
	return starts, unmet
}
