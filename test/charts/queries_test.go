package charts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// alert is one of files/alerts.yaml.
type alert struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder("code-sandbox"), "files", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups[0].Rules
}

// panelQueries are those of the dashboard, by their panel's title.
func panelQueries(t *testing.T) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder("code-sandbox"), "files", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, p := range file.Panels {
		for _, q := range p.Targets {
			all[p.Title] = append(all[p.Title], strings.ReplaceAll(q.Expr, "$__rate_interval", "5m"))
		}
	}
	return all
}

// Each alert says what to do: its words name a value that the chart has.
func TestAlertsNameAValue(t *testing.T) {
	known := func(key string) bool {
		return slices.ContainsFunc(values(t, "code-sandbox"), func(v value) bool {
			return v.key == key || strings.HasPrefix(v.key, key+".") || strings.HasPrefix(key, v.key+".")
		})
	}
	word := regexp.MustCompile(`\b(image|log|pool|sandbox|network|runs|injector|sidecar)(\.[a-zA-Z]+)+`)
	all := alerts(t)
	if len(all) < 10 {
		t.Errorf("there are %d alerts", len(all))
	}
	for _, a := range all {
		named := word.FindAllString(strings.ReplaceAll(a.Annotations["description"], "code-sandbox.dev", ""), -1)
		if len(named) == 0 {
			t.Errorf("%s names no value to change", a.Alert)
		}
		for _, key := range named {
			if !known(key) {
				t.Errorf("%s names %s, which is no value", a.Alert, key)
			}
		}
		if a.Annotations["summary"] == "" || a.Labels["severity"] == "" {
			t.Errorf("%s has no summary or no severity", a.Alert)
		}
	}
}

// Each query is one, and asks for metrics and labels that the code has.
func TestQueries(t *testing.T) {
	code := metricsOfCode(t)
	queries := panelQueries(t)
	for _, a := range alerts(t) {
		queries["alert "+a.Alert] = []string{a.Expr}
	}
	if len(queries) < 25 {
		t.Errorf("there are %d queries", len(queries))
	}
	for where, list := range queries {
		for _, q := range list {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(q)
			if err != nil {
				t.Errorf("%s: %v: %s", where, err, q)
				continue
			}
			for _, problem := range unknown(expr, code) {
				t.Errorf("%s: %s: %s", where, problem, q)
			}
		}
	}
}

// unknown is what a query asks for that the code does not have.
func unknown(expr parser.Expr, code map[string]map[string]bool) (problems []string) {
	used := map[string]bool{}
	words := map[string]bool{"le": true}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name := selector.Name
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, end); code[base] != nil && code[name] == nil {
				name = base
			}
		}
		if code[name] == nil {
			problems = append(problems, "there is no metric "+selector.Name)
			return nil
		}
		used[name] = true
		for label := range code[name] {
			words[label] = true
		}
		for _, m := range selector.LabelMatchers {
			if m.Name != model.MetricNameLabel && !code[name][m.Name] {
				problems = append(problems, selector.Name+" has no label "+m.Name)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, label := range a.Grouping {
				if !words[label] {
					problems = append(problems, "nothing in it has the label "+label)
				}
			}
		}
		return nil
	})
	return problems
}
