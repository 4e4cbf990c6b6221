package charts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"sigs.k8s.io/yaml"
)

// hostile are texts that YAML reads as something else where nobody quotes them:
// other types, other structures, comments, and what ends a text.
var hostile = []string{
	"a: b", "a #b", "\"", "'", "a\nkind: Secret", "a\n---\nkind: Secret", "- x", "{a: b}", "[a]", "*a", "!a", "@a", "|",
	"~", "null", "true", "no", "007", "1e3", "0x10", "12", "1.5", "2026-11-30", "a\\", "{{ .Release.Name }}",
}

// fine are texts of which each value that is a text takes one, told apart by a word.
var fine = []string{"qqq", "qqq=qqq", "qqq:qqq", "1", "1s", "1%", "9.9.9.9", "9.9.9.9:9", "9.9.9.9/9", "9Mi", "sha256:" + strings.Repeat("9", 64)}

// slot is a place for a text in a chart's values: it makes the values that have
// the text there.
type slot struct {
	name string
	with func(text string) map[string]any
}

// slots are all places for texts that a schema has.
func slots(name string, schema map[string]any, wrap func(any) map[string]any) (all []slot) {
	if properties, ok := schema["properties"].(map[string]any); ok {
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			under := func(v any) map[string]any { return wrap(map[string]any{key: v}) }
			all = append(all, slots(name+"."+key, properties[key].(map[string]any), under)...)
		}
	}
	if more, ok := schema["additionalProperties"].(map[string]any); ok {
		all = append(all, slot{name + " (key)", func(text string) map[string]any { return wrap(map[string]any{text: "value"}) }})
		all = append(all, slots(name+" (value)", more, func(v any) map[string]any { return wrap(map[string]any{"key": v}) })...)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		all = append(all, slots(name+"[]", items, func(v any) map[string]any { return wrap([]any{v}) })...)
	}
	options, _ := schema["anyOf"].([]any)
	for _, option := range options {
		all = append(all, slots(name, option.(map[string]any), wrap)...)
	}
	if schema["type"] == "string" && schema["enum"] == nil {
		all = append(all, slot{name, func(text string) map[string]any { return wrap(text) }})
	}
	return all
}

// shape is what objects are made of, without what their texts say: the kind of
// each value, by its path. word is a text that may be a key.
func shape(all []object, word string) []string {
	var paths []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, below := range v {
				if key == word {
					key = "…"
				}
				walk(path+"."+key, below)
			}
		case []any:
			for _, below := range v {
				walk(path+"[]", below)
			}
		default:
			paths = append(paths, fmt.Sprintf("%s is a %T", path, v))
		}
	}
	for _, o := range all {
		walk(o.kind(), map[string]any(o))
	}
	slices.Sort(paths)
	return paths
}

// texts are all that objects say, keys too.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case map[string]any:
		for key, below := range v {
			all = append(append(all, key), texts(below)...)
		}
	case []any:
		for _, below := range v {
			all = append(all, texts(below)...)
		}
	}
	return all
}

// arrives says whether a text stands whole in one of the objects' texts, as it
// is or within JSON.
func arrives(all []object, text string) bool {
	raw, err := json.Marshal(text)
	if err != nil {
		panic("BUG: a text is not JSON: " + err.Error())
	}
	within := strings.Trim(string(raw), `"`)
	return slices.ContainsFunc(all, func(o object) bool {
		return slices.ContainsFunc(texts(map[string]any(o)), func(s string) bool { return strings.Contains(s, text) || strings.Contains(s, within) })
	})
}

// on are the switches behind which values are used at all.
var on = map[string]string{
	"code-sandbox":    everything,
	"agent-namespace": "{network: {egressToPool: true}, test: {image: {ref: python}}, doctor: {image: {ref: product}}}",
}

// template renders one chart often: its schema is compiled once.
type template struct {
	chart  *chart.Chart
	schema *jsonschema.Schema
	slots  []slot
}

func newTemplate(t *testing.T, name string) *template {
	t.Helper()
	c := load(t, name)
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("values")
	if err != nil {
		t.Fatal(err)
	}
	return &template{c, compiled, slots("", schema.(map[string]any), func(v any) map[string]any { return v.(map[string]any) })}
}

// with renders the chart with values; taken says whether the schema has let them in.
func (x *template) with(t *testing.T, given map[string]any) (all []object, taken bool) {
	t.Helper()
	var switches map[string]any
	if err := yaml.Unmarshal([]byte(on[x.chart.Name()]), &switches); err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.CoalesceValues(x.chart, chartutil.CoalesceTables(given, switches))
	if err != nil {
		t.Fatal(err)
	}
	if x.schema.Validate(map[string]any(values)) != nil {
		return nil, false
	}
	ready, err := chartutil.ToRenderValuesWithSchemaValidation(x.chart, values, common.ReleaseOptions{Name: "test", Namespace: "system"}, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if all, err = rendered(t, x.chart, ready); err != nil {
		t.Errorf("%s: %v", x.chart.Name(), err)
	}
	return all, true
}

// Whatever a value's text is, it is refused or arrives as that text, and nothing
// else of what the chart makes is another.
func TestTextsStayTexts(t *testing.T) {
	for _, name := range charts {
		x := newTemplate(t, name)
		if len(x.slots) < 15 {
			t.Errorf("%s has %d places for a text", name, len(x.slots))
		}
		for _, s := range x.slots {
			x.staysText(t, s)
		}
	}
}

func (x *template) staysText(t *testing.T, s slot) {
	t.Helper()
	var want []string
	for _, text := range fine {
		if all, taken := x.with(t, s.with(text)); taken && arrives(all, text) {
			want = shape(all, text)
			break
		}
	}
	if want == nil {
		t.Errorf("%s: no text is let in at %s and arrives; add one of its kind to fine, or what switches it on", x.chart.Name(), s.name)
		return
	}
	for _, text := range hostile {
		all, taken := x.with(t, s.with(text))
		switch {
		case taken && !slices.Equal(shape(all, text), want):
			t.Errorf("%s: %q at %s makes other objects", x.chart.Name(), text, s.name)
		case taken && !arrives(all, text):
			t.Errorf("%s: %q at %s does not arrive", x.chart.Name(), text, s.name)
		}
	}
}

// A release may have a name, and a namespace, that YAML reads as a number.
func TestNamesOfReleases(t *testing.T) {
	for _, chart := range charts {
		render := func(name string) []object {
			t.Helper()
			all, err := tryAs(t, chart, common.ReleaseOptions{Name: name, Namespace: name, Revision: 1, IsInstall: true}, on[chart])
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		want := shape(render("qqq"), "")
		for _, name := range []string{"007", "12", "1e3", "0x10", "true", "null", "no"} {
			if all := render(name); !slices.Equal(shape(all, ""), want) || !arrives(all, name) {
				t.Errorf("%s: with the name %q other objects are made", chart, name)
			}
		}
	}
}
