package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// State is what a row says.
type State string

// The states.
const (
	Protected     State = "protected"
	NotProtected  State = "not protected"
	NotApplicable State = "not applicable"
)

// Row is one thing that was tried.
type Row struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Promised says whether the product promises it. Without it the row is a
	// choice of the operator's, or of the cluster's.
	Promised bool   `json:"promised"`
	Saw      string `json:"saw"`
	Change   string `json:"change,omitempty"` // what to change
}

// promise begins a row of something that the product promises.
func promise(name string) Row { return Row{Name: name, Promised: true} }

func (r *Row) protected(format string, args ...any) {
	r.State, r.Saw = Protected, fmt.Sprintf(format, args...)
}

func (r *Row) open(saw, change string) { r.State, r.Saw, r.Change = NotProtected, saw, change }

func (r *Row) none(format string, args ...any) {
	r.State, r.Saw = NotApplicable, fmt.Sprintf(format, args...)
}

// untried is a row that nothing was shown for. Nobody may take it for
// protected.
func (r *Row) untried(err error) {
	r.open("it could not be tried: "+err.Error(), "make runs work first; the pool's log and the Events in runs.namespace say what is wrong")
}

// Report is all rows.
type Report struct {
	Isolation string `json:"isolation"` // what stands around the sandboxes
	Rows      []Row  `json:"rows"`
}

func (r *Report) add(rows ...Row) { r.Rows = append(r.Rows, rows...) }

// Broken names the promises that are not kept.
func (r *Report) Broken() []string {
	var names []string
	for _, row := range r.Rows {
		if row.Promised && row.State == NotProtected {
			names = append(names, row.Name)
		}
	}
	return names
}

// Table writes a line a row, and below it what to change.
func (r *Report) Table(w io.Writer) error {
	name, state := 0, len(NotApplicable)
	for _, row := range r.Rows {
		name = max(name, len(row.Name))
	}
	var b strings.Builder
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "%-*s  %-*s  %s\n", name, row.Name, state, row.State, row.Saw)
		if row.Change != "" {
			fmt.Fprintf(&b, "%-*s  %-*s  > %s\n", name, "", state, "", row.Change)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// JSON writes the report as one object in one line: a pod's log mixes lines of
// both outputs.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		*Report
		Broken []string `json:"broken"`
	}{r, append([]string{}, r.Broken()...)})
}
