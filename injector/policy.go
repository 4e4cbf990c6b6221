package injector

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A setting is one part of the policy: an annotation of a namespace (the
// default for its pods) or of a pod, and the variable that tells it to the
// sidecar and to the hook.
type setting struct {
	key, env string
	to       reader
	// check returns what a value can be, or "" for one that is fine.
	check func(string) string
}

// reader is who a setting is told to, as a variable. The pool reads them all
// from the pod's annotation.
type reader int

const (
	forHook    reader = 1 << iota // in the agent
	forSidecar                    // beside it
)

const (
	keyTools       = "tools"
	keyRequireHook = "require-hook"
)

// settings are all of them. Where the value is a list, commas separate it.
var settings = []setting{
	{keyTools, "CODE_SANDBOX_TOOLS", forHook | forSidecar, oneOf("enforce", "audit", "off")},
	{keyRequireHook, "CODE_SANDBOX_REQUIRE_HOOK", forSidecar, oneOf("true", "false")},
	{"tools-include", "CODE_SANDBOX_TOOLS_INCLUDE", forHook | forSidecar, globs},
	{"tools-exclude", "CODE_SANDBOX_TOOLS_EXCLUDE", forHook | forSidecar, globs},
	{"tools-context", "CODE_SANDBOX_TOOLS_CONTEXT", forHook | forSidecar, oneOf("refuse", "inline")},
	{"tool-functions", "CODE_SANDBOX_TOOL_FUNCTIONS", forHook, functions},
	{"tool-env-allow", "CODE_SANDBOX_TOOL_ENV_ALLOW", forHook | forSidecar, globs},
	{"tool-timeout", "CODE_SANDBOX_TOOL_TIMEOUT", forHook | forSidecar, timeout},
	{"tool-memory", "", 0, memory},
	{"allow-results", "CODE_SANDBOX_ALLOW_RESULTS", forHook | forSidecar, words},
	{"first-party", "CODE_SANDBOX_FIRST_PARTY", forHook, globs},
	{"grants", "CODE_SANDBOX_TOOL_GRANT", forSidecar, grants},
}

// Policy is what is in force for a pod, by the key of its annotation without
// the prefix. What is not in it is left to the sidecar's defaults.
type Policy map[string]string

// String is the policy as the pod's annotation has it.
func (p Policy) String() string {
	raw, err := json.Marshal(p)
	if err != nil {
		panic("BUG: a policy that cannot be written: " + err.Error())
	}
	return string(raw)
}

// environment is what a reader is told, in the order of the settings. What the
// policy is silent about is told as empty, which means the default: otherwise
// the image or the pod would have the word.
func (p Policy) environment(to reader) []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, s := range settings {
		if s.to&to != 0 {
			env = append(env, corev1.EnvVar{Name: s.env, Value: p[s.key]})
		}
	}
	return env
}

// Resolve lays a pod's annotations over those of its namespace, and these over
// the defaults. unknown are keys with our prefix that mean nothing.
func Resolve(defaults Policy, namespace, pod map[string]string) (p Policy, unknown []string, err error) {
	p = Policy{}
	for _, s := range settings {
		value, where := defaults[s.key], "default"
		for _, from := range []struct {
			name string
			has  map[string]string
		}{{"namespace", namespace}, {"pod", pod}} {
			if v, ok := from.has[Prefix+s.key]; ok {
				value, where = strings.TrimSpace(v), from.name
			}
		}
		if value == "" {
			continue
		}
		if should := s.check(value); should != "" {
			return nil, nil, fmt.Errorf("the %s's annotation %s is %q; it must be %s", where, Prefix+s.key, clip(value), should)
		}
		p[s.key] = value
	}
	for key := range pod {
		name, ours := strings.CutPrefix(key, Prefix)
		if ours && !isSetting(name) && !slices.Contains(podKeys, key) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return p, unknown, nil
}

func isSetting(key string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return s.key == key })
}

func oneOf(values ...string) func(string) string {
	return func(v string) string {
		if slices.Contains(values, v) {
			return ""
		}
		return strings.Join(values, " or ")
	}
}

func globs(v string) string {
	for word := range strings.SplitSeq(v, ",") {
		if _, err := path.Match(strings.TrimSpace(word), ""); err != nil {
			return "globs separated by commas"
		}
	}
	return words(v)
}

func functions(v string) string {
	for word := range strings.SplitSeq(v, ",") {
		module, glob, ok := strings.Cut(strings.TrimSpace(word), ":")
		if !ok || module == "" || glob == "" {
			return "module:glob, separated by commas"
		}
	}
	return globs(v)
}

// words bounds what goes into variables of every container.
func words(v string) string {
	if len(v) > 4096 {
		return "at most 4096 characters"
	}
	if strings.ContainsAny(v, "\x00\n\r") {
		return "one line"
	}
	if strings.Contains(v, "$(") {
		return "words without $(, which Kubernetes would put a variable of the pod in place of"
	}
	return ""
}

func timeout(v string) string {
	if n, err := strconv.ParseFloat(v, 64); err == nil && n > 0 && n <= 3600 {
		return ""
	}
	return "a number of seconds up to 3600"
}

// memory is what a copy may use. The pool allows no more than it gives to any
// sandbox.
func memory(v string) string {
	if q, err := resource.ParseQuantity(v); err == nil && q.Cmp(resource.MustParse("64Mi")) >= 0 && q.Cmp(resource.MustParse("1Ti")) <= 0 {
		return ""
	}
	return "a quantity such as 512Mi, from 64Mi on"
}

// grants are TOOL=HOST[:PORT][,HOST[:PORT]…], separated by spaces.
func grants(v string) string {
	for word := range strings.FieldsSeq(v) {
		tool, hosts, ok := strings.Cut(word, "=")
		if _, err := path.Match(tool, ""); !ok || tool == "" || err != nil {
			return "TOOL=HOST[:PORT][,HOST[:PORT]...], separated by spaces"
		}
		for host := range strings.SplitSeq(hosts, ",") {
			if _, err := wire.ParseHosts(host); err != nil {
				return "TOOL=HOST[:PORT][,HOST[:PORT]...] with hosts that can be: " + err.Error()
			}
		}
	}
	return words(v)
}

// clip bounds a word of somebody else's in a message.
func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
