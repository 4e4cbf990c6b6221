//go:build e2e

package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// scrapedFirst and scrapedLast are when the scrapes are taken to have been made.
var scrapedFirst, scrapedLast = time.Unix(1_000_000_000, 0), time.Unix(1_000_000_030, 0)

// scrapes reads the folder: PART-POD-1 is what a part served first, PART-POD-2
// what it served later.
func scrapes(t *testing.T) series {
	t.Helper()
	dir := os.Getenv("CODE_SANDBOX_SCRAPES")
	files, err := filepath.Glob(filepath.Join(dir, "*-[12]"))
	if dir == "" || err != nil || len(files) < 6 {
		t.Fatalf("CODE_SANDBOX_SCRAPES is %q, with %d scrapes of pool, injector and sidecar: %v; test/e2e/inject makes them", dir, len(files), err)
	}
	all := series{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, at := filepath.Base(file), scrapedFirst
		if strings.HasSuffix(name, "-2") {
			at = scrapedLast
		}
		part, pod, _ := strings.Cut(name[:len(name)-2], "-")
		all.add(t, raw, map[model.LabelName]model.LabelValue{"job": model.LabelValue(part), "instance": model.LabelValue(pod)}, at)
	}
	return all
}

// Every query of dashboard and alerts finds, in what the parts of a cluster have
// really served, each metric and label that it names, and can be computed.
func TestQueriesOnScrapes(t *testing.T) {
	all := scrapes(t)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: time.Hour})
	evaluate := func(q string) (int, error) {
		query, err := engine.NewInstantQuery(t.Context(), all, nil, q, scrapedLast)
		if err != nil {
			return 0, err
		}
		defer query.Close()
		result := query.Exec(t.Context())
		if result.Err != nil {
			return 0, result.Err
		}
		if err := result.Warnings.AsErrors(); len(err) > 0 {
			return 0, err[0]
		}
		v, err := result.Vector()
		return len(v), err
	}
	for where, q := range everyQuery(t) {
		if _, err := evaluate(q); err != nil {
			t.Errorf("%s: %v: %s", where, err, q)
			continue
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range all.missing(expr, evaluate) {
			t.Errorf("%s: %s: %s", where, problem, q)
		}
	}
	// What nobody serves is found out: a metric, a value of a label, a label.
	for _, q := range []string{
		"rate(code_sandbox_pool_run_total[5m])", `code_sandbox_pool_claims_total{start="tepid"}`, "sum by (colour) (code_sandbox_pool_sandboxes)",
	} {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(q)
		if err != nil {
			t.Fatal(err)
		}
		if len(all.missing(expr, evaluate)) == 0 {
			t.Errorf("nothing is found to be wrong with %s", q)
		}
	}
}

// everyQuery is those of all panels and alerts.
func everyQuery(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for title, list := range panelQueries(t) {
		for i, q := range list {
			all["panel "+title+" "+string(rune('A'+i))] = q
		}
	}
	for _, a := range alerts(t) {
		all["alert "+a.Alert] = a.Expr
	}
	if len(all) < 35 {
		t.Errorf("there are %d queries", len(all))
	}
	return all
}

// missing is what a query names that no scrape has.
func (s series) missing(expr parser.Expr, evaluate func(string) (int, error)) (problems []string) {
	has := map[string]bool{}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		selector := *v
		if n, err := evaluate(selector.String()); err != nil || n == 0 {
			problems = append(problems, "no scrape has "+selector.String())
			return nil
		}
		for _, one := range s {
			if one.labels.Get(model.MetricNameLabel) == v.Name {
				one.labels.Range(func(l labels.Label) { has[l.Name] = true })
			}
		}
		for _, m := range v.LabelMatchers {
			if !has[m.Name] {
				problems = append(problems, v.Name+" has no label "+m.Name)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, label := range a.Grouping {
				if !has[label] {
					problems = append(problems, "nothing in it has the label "+label)
				}
			}
		}
		return nil
	})
	return problems
}
