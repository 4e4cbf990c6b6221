package charts

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the charts' README.md anew")

// value is one that can be set, with what stands above it in values.yaml.
type value struct{ key, is, says string }

// values are those of a chart, in the order of its values.yaml.
func values(t *testing.T, chart string) []value {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder(chart), "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return below(t, doc.Content[0], "")
}

// below collects the values of a mapping. One with a comment above it is a
// value itself, whatever it holds.
func below(t *testing.T, node *yaml.Node, prefix string) (all []value) {
	t.Helper()
	for i := 0; i < len(node.Content); i += 2 {
		key, v := node.Content[i], node.Content[i+1]
		says := comment(key)
		if says == "" && v.Kind == yaml.MappingNode && len(v.Content) > 0 {
			all = append(all, below(t, v, prefix+key.Value+".")...)
			continue
		}
		all = append(all, value{prefix + key.Value, inline(t, v), says})
	}
	return all
}

// comment is what stands right above a key.
func comment(n *yaml.Node) string {
	text := n.HeadComment
	if i := strings.LastIndex(text, "\n\n"); i >= 0 {
		text = text[i+2:] // what stands further up is about the file
	}
	var words []string
	for line := range strings.Lines(text) {
		words = append(words, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
	}
	return strings.Join(words, " ")
}

func inline(t *testing.T, n *yaml.Node) string {
	t.Helper()
	var v any
	if err := n.Decode(&v); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A reader learns what every value does.
func TestEveryValueIsExplained(t *testing.T) {
	for _, name := range charts {
		all := values(t, name)
		if len(all) < 10 {
			t.Errorf("%s has %d values", name, len(all))
		}
		for _, v := range all {
			if len(v.says) < 10 || !strings.HasSuffix(v.says, ".") {
				t.Errorf("%s: %s says %q", name, v.key, v.says)
			}
		}
	}
}

// README.md is what values.yaml and Chart.yaml make; -update writes it.
func TestReadmeIsCurrent(t *testing.T) {
	for _, name := range charts {
		c := load(t, name)
		var b strings.Builder
		fmt.Fprintf(&b, "# Chart %s\n\n<!-- Made from Chart.yaml, install.md and values.yaml: cd test/charts && go test -run Readme -update -->\n\n%s\n\nKubernetes %s.\n\n",
			name, c.Metadata.Description, c.Metadata.KubeVersion)
		install, err := os.ReadFile(filepath.Join(folder(name), "install.md"))
		if err != nil {
			t.Fatal(err)
		}
		b.Write(install)
		b.WriteString("\n## Values\n\n| value | default | |\n|---|---|---|\n")
		for _, v := range values(t, name) {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", v.key, v.is, strings.ReplaceAll(v.says, "|", `\|`))
		}
		file := filepath.Join(folder(name), "README.md")
		if *update {
			if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != b.String() {
			t.Errorf("%s is not current: go test -run Readme -update", file)
		}
	}
}
