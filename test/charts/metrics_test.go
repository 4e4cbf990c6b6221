package charts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// registered says which packages register metrics, and what their names begin
// with where the code does not write it out.
var registered = map[string]string{
	"pool/egress": "code_sandbox_egress_", "pool": "code_sandbox_pool_", "pool/server": "code_sandbox_service_", "pool/kube": "code_sandbox_kube_", "injector": "code_sandbox_injector_",
}

var (
	metricName = regexp.MustCompile(`^[a-z][a-z_]*_(total|seconds|depth|flight|sandboxes|sidecar|hook|bytes)$|^sandboxes$`)
	labelName  = regexp.MustCompile(`^[a-z]+$`)
)

// metricsOfCode reads from the sources the names of the metrics, and of the
// labels that are written in the same call. They are string literals: a metric
// that a test could find by running all programs can be found here without.
func metricsOfCode(t *testing.T) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	for folder, prefix := range registered {
		files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				for name, labels := range metricsOfCall(call, prefix) {
					if found[name] == nil {
						found[name] = map[string]bool{}
					}
					for label := range labels {
						found[name][label] = true
					}
				}
				return true
			})
		}
	}
	if len(found) < 30 {
		t.Fatalf("the code has only %d metrics", len(found))
	}
	return found
}

// metricsOfCall is the one metric that a call makes, if it makes one.
func metricsOfCall(call *ast.CallExpr, prefix string) map[string]map[string]bool {
	var names []string
	labels := map[string]bool{}
	ast.Inspect(call, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			return true
		}
		switch text = strings.TrimPrefix(text, prefix); {
		case metricName.MatchString(text):
			names = append(names, prefix+text)
		case labelName.MatchString(text):
			labels[text] = true
		}
		return true
	})
	if len(names) != 1 { // none, or a call around several
		return nil
	}
	return map[string]map[string]bool{names[0]: labels}
}
