package toolproxy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"
)

// Mode says what happens to the tool calls of agents.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce" // run in a sandbox, or not at all
	Audit   Mode = "audit"   // run in the agent; tell where they would run
	Off     Mode = "off"     // run in the agent
)

// Modes lists every Mode, the default first.
var Modes = []Mode{Enforce, Audit, Off}

// Policy is what agents are told with the answer to their hello. A field that
// is empty leaves the word to the agent's own environment, but for Mode.
type Policy struct {
	Mode Mode
	// Include and Exclude are globs on a tool's name or its module:qualname.
	Include, Exclude []string
	// Context is refuse or inline: what becomes of tools that take an object of
	// their framework.
	Context string
	// EnvAllow names variables whose values may reach a copy.
	EnvAllow []string
	// AllowResults names classes that a tool may return though they steer.
	AllowResults []string
	// Grants say which tools may reach which hosts. Agents are not told.
	Grants []Grant
	// Timeout bounds a call that names none; MaxTimeout bounds all.
	Timeout, MaxTimeout time.Duration
}

// Limits bounds what crosses in one call.
type Limits struct {
	ArgsBytes   int     `json:"args_bytes"`
	ResultBytes int     `json:"result_bytes"`
	Depth       int     `json:"depth"`
	Nodes       int     `json:"nodes"`
	MaxSeconds  float64 `json:"max_seconds"`
}

// MaxCalls is how many tool calls may be in flight, those that wait included.
const MaxCalls = 256

// DefaultLimits are those of the documentation.
func DefaultLimits() Limits {
	return Limits{ArgsBytes: 4 << 20, ResultBytes: 8 << 20, Depth: 64, Nodes: 200_000, MaxSeconds: 300}
}

// Validate names the first field that cannot be.
func (p *Policy) Validate() error {
	if !slices.Contains(Modes, p.Mode) {
		return fmt.Errorf("the mode is %q; it can be enforce, audit or off", p.Mode)
	}
	if p.Context != "" && p.Context != "refuse" && p.Context != "inline" {
		return fmt.Errorf("the context policy is %q; it can be refuse or inline", p.Context)
	}
	if p.Timeout < 0 || p.MaxTimeout <= 0 || p.Timeout > p.MaxTimeout {
		return fmt.Errorf("a tool's timeout is %s; it can be up to %s", p.Timeout, p.MaxTimeout)
	}
	for _, pattern := range slices.Concat(p.Include, p.Exclude, p.EnvAllow) {
		if _, err := path.Match(pattern, ""); err != nil {
			return errors.New("the pattern " + pattern + " is not a glob")
		}
	}
	return nil
}

// told is the policy as the hello answer has it.
type told struct {
	Include      []string `json:"include,omitempty"`
	Exclude      []string `json:"exclude,omitempty"`
	Context      string   `json:"context,omitempty"`
	EnvAllow     []string `json:"env_allow,omitempty"`
	AllowResults []string `json:"allow_results,omitempty"`
	Timeout      float64  `json:"timeout_seconds,omitempty"`
}

type welcome struct {
	Mode   Mode   `json:"mode"`
	Policy told   `json:"policy"`
	Limits Limits `json:"limits"`
}

func (p *Policy) welcome(l Limits) welcome {
	l.MaxSeconds = p.MaxTimeout.Seconds()
	return welcome{p.Mode, told{p.Include, p.Exclude, p.Context, p.EnvAllow, p.AllowResults, p.Timeout.Seconds()}, l}
}

// timeout is what a call gets that asked for so many seconds, or for none.
func (p *Policy) timeout(asked float64) time.Duration {
	t := time.Duration(asked * float64(time.Second))
	if asked <= 0 || asked > p.MaxTimeout.Seconds() {
		t = p.MaxTimeout
	}
	if p.Timeout > 0 && (asked <= 0 || t > p.Timeout) {
		t = p.Timeout
	}
	return t
}
