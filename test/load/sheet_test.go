package load

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)) // 100 … 1
	}
	f := func(times []time.Duration, q float64, want time.Duration) {
		t.Helper()
		if got := Quantile(times, q); got != want {
			t.Errorf("the quantile %g is %d, not %d", q, got, want)
		}
	}
	// Of nothing.
	f(nil, 0.5, 0)
	// Of one.
	f([]time.Duration{7}, 0.99, 7)
	// The order they come in does not matter.
	f(hundred, 0, 1)
	f(hundred, 0.5, 50)
	f(hundred, 0.99, 99)
	f(hundred, 1, 100)
}

func TestMedian(t *testing.T) {
	f := func(want float64, values ...float64) {
		t.Helper()
		if got := median(values); got != want {
			t.Errorf("the median of %v is %g, not %g", values, got, want)
		}
	}
	f(0)
	f(3, 3)
	f(2, 3, 1)
	f(2, 9, 2, 1)
}

func TestCheck(t *testing.T) {
	f := func(part, name string, value float64, want string) {
		t.Helper()
		s := &Sheet{Bounds: Bounds}
		for _, b := range Bounds { // all but the one in question are met
			if b.Part == part && b.Name != name {
				s.Add(part, b.Name, "", b.Limit)
			}
		}
		if name != "" {
			s.Add(part, name, "", value)
		}
		err := s.Check([]string{part})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s at %g gives %v, not %q", name, value, err, want)
		}
	}
	// At the bound.
	f(PartClosed, "fresh sandboxes", 200, "")
	// Below the least.
	f(PartClosed, "fresh sandboxes", 199, "fresh sandboxes is 199 and must be ≥ 200")
	// Above the most.
	f(PartOpen, "errors", 1, "errors is 1 and must be ≤ 0")
	// Another part is not looked at, a figure that is missing is.
	f(PartOpen, "", 0, "")
	s := &Sheet{Bounds: Bounds}
	if err := s.Check([]string{PartStart}); err == nil || !strings.Contains(err.Error(), "was not measured") {
		t.Errorf("a sheet without figures gives %v", err)
	}
}

func TestMarkdown(t *testing.T) {
	s := &Sheet{Bounds: Bounds, Machine: Machine{CPU: "a processor"}}
	s.Add(PartStart, "start to the first answer", "ms", 100)
	s.Add(PartStart, "start to the first answer", "ms", 300)
	s.Add(PartStart, "other", "", 1)
	var b strings.Builder
	if err := s.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a processor", "### " + PartStart,
		"| start to the first answer | 200 ms | 100 to 300 | ≤ 2000 |", "| other | 1 | once |  |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
}

func TestOvertaken(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n)) }
	// Requests are sent one after the other; answered says when each has its answer.
	f := func(want int, answered ...int) {
		t.Helper()
		var all []exchange
		for i, n := range answered {
			all = append(all, exchange{at(i), at(100 + n)})
		}
		if got := overtaken(all); got != want {
			t.Errorf("in %v one was overtaken by %d, not %d", answered, got, want)
		}
		// What counts is when they were sent, not which was due first.
		slices.Reverse(all)
		if got := overtaken(all); got != want {
			t.Errorf("in %v, listed from the last to the first, one was overtaken by %d, not %d", answered, got, want)
		}
	}
	// In order.
	f(0, 1, 2, 3)
	// Two swapped.
	f(1, 2, 1, 3)
	// The first came last.
	f(2, 9, 1, 2)
	// The last came first: each of the others was overtaken by one.
	f(1, 2, 3, 1)
}
