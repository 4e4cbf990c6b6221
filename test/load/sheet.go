// Package load measures a running service beside baselines taken in the same
// run. It is a black box to the service: HTTP in front, /proc behind; but for
// the part fleet, which has the pool in this process.
package load

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Sheet collects figures in the order in which they are first added. A figure
// measured in several rounds keeps them all.
type Sheet struct {
	Machine Machine   `json:"machine"`
	Figures []*Figure `json:"figures"`
	Bounds  []Bound   `json:"-"` // what figures must reach
}

// Figure is one quantity, in all rounds.
type Figure struct {
	Part   string    `json:"part"`
	Name   string    `json:"name"` // unique within its part
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
}

// Add takes note of one round's value.
func (s *Sheet) Add(part, name, unit string, value float64) {
	f := s.Find(part, name)
	if f == nil {
		f = &Figure{Part: part, Name: name, Unit: unit}
		s.Figures = append(s.Figures, f)
	}
	f.Values = append(f.Values, value)
	f.Median = median(f.Values)
}

// AddLatency takes note of one round's latencies.
func (s *Sheet) AddLatency(part, name string, times []time.Duration) {
	s.Add(part, name+", p50", "ms", Milliseconds(Quantile(times, 0.5)))
	s.Add(part, name+", p99", "ms", Milliseconds(Quantile(times, 0.99)))
}

// Find returns nil for a figure that was not measured.
func (s *Sheet) Find(part, name string) *Figure {
	i := slices.IndexFunc(s.Figures, func(f *Figure) bool { return f.Part == part && f.Name == name })
	if i < 0 {
		return nil
	}
	return s.Figures[i]
}

// Report prints the sheet, and writes all of it to the file as JSON where one is
// named.
func (s *Sheet) Report(w io.Writer, file string) error {
	if err := s.Markdown(w); err != nil || file == "" {
		return err
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode the figures: %w", err)
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// Markdown writes the machine and a table a part.
func (s *Sheet) Markdown(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n", s.Machine); err != nil {
		return err
	}
	part := ""
	for _, f := range s.Figures {
		if f.Part != part {
			part = f.Part
			if _, err := fmt.Fprintf(w, "\n### %s\n\n| figure | median | lowest to highest | must |\n|---|--:|--:|--:|\n", part); err != nil {
				return err
			}
		}
		spread := "once"
		if len(f.Values) > 1 {
			spread = number(slices.Min(f.Values)) + " to " + number(slices.Max(f.Values))
		}
		must := ""
		if b := s.boundOf(f); b != nil {
			must = b.String()
		}
		if _, err := fmt.Fprintf(w, "| %s | %s | %s | %s |\n", f.Name, withUnit(f.Median, f.Unit), spread, must); err != nil {
			return err
		}
	}
	return nil
}

// number has three digits that say something, and no exponent.
func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%d", int64(v))
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func withUnit(v float64, unit string) string {
	if unit == "" {
		return number(v)
	}
	return number(v) + " " + unit
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Quantile is the smallest of the times that at least the share q of them does
// not exceed; zero of none.
func Quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Milliseconds is a duration as a figure.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
