package load

import (
	"errors"
	"fmt"
)

// Bound is what a figure must reach.
type Bound struct {
	Part, Name string
	Most       bool // the limit is the most, else the least, that the median may be
	Limit      float64
}

// Bounds is what the project promises of one machine with two idle cores. A
// ratio holds on any machine, an absolute number on one like that.
var Bounds = []Bound{
	{PartOpen, "print(1) over HTTP, p50", true, 1.5},
	{PartOpen, "print(1) over HTTP, p99", true, 10},
	{PartOpen, "python3 -c is slower by", false, 6},
	{PartOpen, "errors", true, 0},
	{PartClosed, "fresh sandboxes", false, 200},
	{PartClosed, "times what python3 -c reaches", false, 2},
	{PartClosed, "errors", true, 0},
	{PartClosed, "sandboxes used twice", true, 0},
	{PartMemory, "an idle sandbox", true, 3},
	{PartMemory, "an idle sandbox, numpy and pandas imported", true, 3},
	{PartData, "pandas snippet over HTTP, p50", true, 10},
	{PartBurst, "answered of 30", false, 30},
	{PartBurst, "slowest", true, 1000},
	// They are granted in order; of those that then run side by side, which ends
	// first is chance.
	{PartBurst, "later callers answered before one, at most", true, 8},
	{PartOutput, "growth of the service while 1 GiB was written", true, 10},
	{PartStart, "start to the first answer", true, 2000},
	{PartSoak, "runs that failed", true, 0},
	{PartSoak, "sandboxes used twice", true, 0},
	{PartSoak, "processes more than before", true, 0},
	{PartSoak, "cgroups more than before", true, 0},
	{PartSoak, "descriptors more than before", true, 8},
	{PartSoak, "memory of the service more than before", true, 10},
}

func (s *Sheet) boundOf(f *Figure) *Bound {
	for i := range s.Bounds {
		if b := &s.Bounds[i]; b.Part == f.Part && b.Name == f.Name {
			return b
		}
	}
	return nil
}

// Holds says whether v is within the bound.
func (b *Bound) Holds(v float64) bool {
	if b.Most {
		return v <= b.Limit
	}
	return v >= b.Limit
}

func (b *Bound) String() string {
	if b.Most {
		return "≤ " + number(b.Limit)
	}
	return "≥ " + number(b.Limit)
}

// Check names each figure of the parts measured that is missing or does not
// reach its bound.
func (s *Sheet) Check(parts []string) error {
	var errs []error
	for i := range s.Bounds {
		b := &s.Bounds[i]
		if !contains(parts, b.Part) {
			continue
		}
		f := s.Find(b.Part, b.Name)
		switch {
		case f == nil:
			errs = append(errs, fmt.Errorf("%s: %s was not measured", b.Part, b.Name))
		case !b.Holds(f.Median):
			errs = append(errs, fmt.Errorf("%s: %s is %s and must be %s", f.Part, f.Name, withUnit(f.Median, f.Unit), b))
		}
	}
	return errors.Join(errs...)
}

func contains(parts []string, part string) bool {
	for _, p := range parts {
		if p == part {
			return true
		}
	}
	return false
}
