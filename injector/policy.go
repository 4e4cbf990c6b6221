package injector

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A setting is one part of the policy: an annotation of a namespace (the
// default for its pods) or of a pod, and the variable that tells it to the
// sidecar and to the hook.
type setting struct {
	key, env string
	// check returns what a value can be, or "" for one that is fine.
	check func(string) string
}

// settings are all of them. Where the value is a list, commas separate it.
var settings = []setting{
	{"mode", "CODE_SANDBOX_TOOLS", oneOf("enforce", "audit", "off")},
	{"require-hook", "CODE_SANDBOX_REQUIRE_HOOK", oneOf("true", "false")},
	{"tools-include", "CODE_SANDBOX_TOOLS_INCLUDE", globs},
	{"tools-exclude", "CODE_SANDBOX_TOOLS_EXCLUDE", globs},
	{"tools-context", "CODE_SANDBOX_TOOLS_CONTEXT", oneOf("refuse", "inline")},
	{"tool-functions", "CODE_SANDBOX_TOOL_FUNCTIONS", functions},
	{"tool-env-allow", "CODE_SANDBOX_TOOL_ENV_ALLOW", globs},
	{"tool-timeout", "CODE_SANDBOX_TOOL_TIMEOUT", timeout},
	{"allow-results", "CODE_SANDBOX_ALLOW_RESULTS", words},
	{"first-party", "CODE_SANDBOX_FIRST_PARTY", globs},
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

// environment is the policy in the order of the settings.
func (p Policy) environment() [][2]string {
	var env [][2]string
	for _, s := range settings {
		if value, ok := p[s.key]; ok {
			env = append(env, [2]string{s.env, value})
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
		known := slices.ContainsFunc(settings, func(s setting) bool { return s.key == name })
		if ours && !known && !slices.Contains(podKeys, key) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return p, unknown, nil
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
	return ""
}

func timeout(v string) string {
	if n, err := strconv.ParseFloat(v, 64); err == nil && n > 0 && n <= 3600 {
		return ""
	}
	return "a number of seconds up to 3600"
}

// clip bounds a word of somebody else's in a message.
func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
