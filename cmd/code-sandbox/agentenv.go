package main

import (
	"slices"
	"strings"
)

// splitAgent cuts the agent's command off: what comes after the first "--".
func splitAgent(args []string) (ours, agent []string) {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i], args[i+1:]
	}
	return args, nil
}

// withHook is an environment with the hook's folder first on PYTHONPATH, and
// what more is set in place of what was.
func withHook(env []string, hook string, more ...string) []string {
	more = append(more, "PYTHONPATH="+hook)
	var kept []string
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if name == "PYTHONPATH" && value != "" {
			more[len(more)-1] += ":" + value // an empty segment would name the working directory
		}
		if !slices.ContainsFunc(more, func(m string) bool { return strings.HasPrefix(m, name+"=") }) {
			kept = append(kept, v)
		}
	}
	return append(kept, more...)
}
