package charts

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
)

// fires evaluates an alert's expression with Prometheus' engine, at a time.
func (s series) fires(t *testing.T, name string, at time.Time) bool {
	t.Helper()
	expr := ""
	for _, a := range alerts(t) {
		if a.Alert == name {
			expr = a.Expr
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	query, err := engine.NewInstantQuery(t.Context(), s, nil, expr, at)
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	found, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

// Audits that fail, or that nobody makes, are told of: whichever replica has the
// Lease, the last good one counts, and three missed ones are too many.
func TestAuditAlert(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	f := func(want bool, minutesAgo ...int) {
		t.Helper()
		all := series{}
		for i, ago := range minutesAgo {
			last := now.Add(-time.Duration(ago) * time.Minute).Unix()
			if ago < 0 {
				last = 0 // never
			}
			scrape := fmt.Sprintf("code_sandbox_injector_audit_success_timestamp_seconds %d\ncode_sandbox_injector_audit_interval_seconds 300\n", last)
			all.add(t, []byte(scrape), map[model.LabelName]model.LabelValue{"instance": model.LabelValue(fmt.Sprint(i))}, now.Add(-time.Minute))
		}
		if got := all.fires(t, "CodeSandboxAuditFails", now); got != want {
			t.Errorf("with audits %d minutes ago it fires: %v", minutesAgo, got)
		}
	}
	// One replica audits, the other never does, or did so before.
	f(false, 4, -1)
	f(false, -1, 14)
	f(false, 600, 4)
	// Three are missing.
	f(true, 16, -1)
	f(true, 600, 16)
	// None has ever been complete.
	f(true, -1, -1)
	// There is no injector: that is another alert's.
	f(false)
}
