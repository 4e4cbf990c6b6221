package cluster

import (
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/test/load"
)

// ran is a request that was due at one and answered after the given time.
func ran(ms float64, a answer) shot {
	a.Outcome, a.Stdout, a.Isolation = "ok", "1\n", "pod"
	return shot{Due: 1, Began: 1, Ended: 1 + ms/1000, Status: 200, Answer: a}
}

func refused(status int, after, executed string, retryable bool) shot {
	s := shot{Due: 1, Began: 1, Ended: 2, Status: status, RetryAfter: after}
	s.Answer.Error = &struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Retryable bool   `json:"retryable"`
		Executed  string `json:"executed"`
	}{"no_capacity", "not now", retryable, executed}
	return s
}

func expect(t *testing.T, sheet *load.Sheet, part, name string, want float64) {
	t.Helper()
	f := sheet.Find(part, name)
	if f == nil {
		t.Fatalf("%s was not measured", name)
	}
	if diff := f.Median - want; diff > 0.001 || diff < -0.001 {
		t.Errorf("%s is %g, not %g", name, f.Median, want)
	}
}

// Latencies are those of warm runs; the others are counted.
func TestWarm(t *testing.T) {
	a := answer{Warm: true}
	a.Timing.QueueMS, a.Timing.ClaimMS, a.Timing.RunMS = 0.5, 0.5, 2
	wrong := ran(1, a)
	wrong.Answer.Stdout = "2\n"
	sheet := &load.Sheet{}
	addWarm(sheet, partWarm, []shot{ran(5, a), ran(900, answer{}), wrong, refused(429, "1", "no", true)})
	expect(t, sheet, partWarm, "print(1) from the agent's container, p50", 5)
	expect(t, sheet, partWarm, "of which: agent to sidecar to pool, and back, p50", 2)
	expect(t, sheet, partWarm, "of which: queue and claim, p50", 1)
	expect(t, sheet, partWarm, "runs that found no warm sandbox", 1)
	expect(t, sheet, partWarm, "errors", 2)
}

// A refusal counts as one only when it says when to come back.
func TestBurst(t *testing.T) {
	sheet := &load.Sheet{}
	err := addBurst(sheet, []shot{ran(5, answer{}), ran(7, answer{}), refused(429, "1", "no", true), refused(503, "", "no", true)}, 4)
	if err == nil {
		t.Error("a refusal without Retry-After is no error")
	}
	expect(t, sheet, partBurst, "answered", 2)
	expect(t, sheet, partBurst, "told when to come back", 1)
	expect(t, sheet, partBurst, "neither", 1)
	expect(t, sheet, partBurst, "slowest", 7)
	expect(t, sheet, partBurst, "pods made", 4)
}

// Sandboxes that serve twice are seen, and a run may be lost only after the kill.
func TestKill(t *testing.T) {
	f := func(killed time.Time, neither float64, shots ...shot) *load.Sheet {
		t.Helper()
		sheet := &load.Sheet{}
		if err := addKill(sheet, shots, killed); (err != nil) != (neither > 0) {
			t.Errorf("the error is %v", err)
		}
		expect(t, sheet, partKill, "neither", neither)
		return sheet
	}
	before, after := time.Unix(0, 0), time.Unix(10, 0)
	sheet := f(before, 0, ran(1, answer{SandboxID: "a"}), ran(1, answer{SandboxID: "a"}), ran(1, answer{SandboxID: "b"}),
		refused(503, "1", "no", true), refused(502, "", "maybe", false))
	expect(t, sheet, partKill, "sandboxes that served twice", 1)
	expect(t, sheet, partKill, "answered", 3)
	expect(t, sheet, partKill, "refused, retryable, nothing executed", 1)
	expect(t, sheet, partKill, "lost with the replica, executed maybe", 1)
	// Lost although nothing had been killed yet.
	f(after, 1, refused(502, "", "maybe", false))
	// Nothing ran, and yet nobody may try again.
	f(before, 1, refused(400, "", "no", false))
	// No answer at all.
	f(before, 1, shot{Broken: "hung up"})
}

// What the injector adds is told at each quantile, beside what it is added to.
func TestAdmission(t *testing.T) {
	sheet := &load.Sheet{}
	addAdmission(sheet, []time.Duration{6 * time.Millisecond, 8 * time.Millisecond, 40 * time.Millisecond},
		[]time.Duration{2 * time.Millisecond, 3 * time.Millisecond, 9 * time.Millisecond})
	expect(t, sheet, partAdmission, "pod let in, injected, p50", 8)
	expect(t, sheet, partAdmission, "pod let in, injected, p99", 40)
	expect(t, sheet, partAdmission, "what the injector adds, p50", 5)
	expect(t, sheet, partAdmission, "what the injector adds, p99", 31)
}
