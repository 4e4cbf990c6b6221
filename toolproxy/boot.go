package toolproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Bounds on a boot record.
const (
	maxBoot    = 4 << 20 // bytes
	maxPaths   = 512
	maxPath    = 4096
	maxTools   = 2000
	maxFrames  = 200     // frameworks
	maxReady   = 1 << 20 // bytes of what each copy is told
	maxKept    = 8 << 20 // bytes in memory
	maxEnv     = 2000
	maxEnvSize = 64 << 10 // bytes of all values that cross
	maxDepth   = 256      // of the JSON: more than any typed value needs
	maxAudited = 1 << 50  // calls of one tool: sums of them do not overflow
)

// bootRecord is what a process tells of itself, as far as it is looked at here.
type bootRecord struct {
	ID     string `json:"boot_id"`
	PID    int    `json:"pid"`
	Python struct {
		Executable string   `json:"executable"`
		Prefix     string   `json:"prefix"`
		BasePrefix string   `json:"base_prefix"`
		Flags      []string `json:"flags"`
	} `json:"python"`
	Main struct {
		Kind string `json:"kind"`
		Path string `json:"path"`
		Name string `json:"name"`
	} `json:"main"`
	Container string   `json:"container"`
	Cwd       string   `json:"cwd"`
	Argv0     string   `json:"argv0"`
	SysPath   []string `json:"sys_path"`
	Env       struct {
		Values map[string]string          `json:"values"`
		Names  map[string]json.RawMessage `json:"names"`
	} `json:"env"`
	Frameworks []Framework `json:"frameworks"`
	Tools      []Tool      `json:"tools"`
	Failure    string      `json:"failure"`
}

// Framework is a framework that a process uses, and whether it is understood.
type Framework struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"`
	Module  string `json:"module"`
	Detail  string `json:"detail"`
}

// Tool is what an agent's hook decided about one tool.
type Tool struct {
	Tool      string `json:"tool"`
	Framework string `json:"framework"`
	Module    string `json:"module"`
	Qualname  string `json:"qualname"`
	Line      int    `json:"line"`
	Ordinal   int    `json:"ordinal"`
	Decision  string `json:"decision"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	// Audited is how many calls ran in the agent that enforce mode would have
	// run in a sandbox or refused.
	Audited int64 `json:"audited,omitempty"`
	// Target is what a call would send, where that is known. It is not kept here.
	Target json.RawMessage `json:"target,omitempty"`
}

// key tells the tools of one program apart.
func (t *Tool) key() toolKey { return toolKey{t.Module, t.Qualname, t.Tool, t.Line, t.Ordinal} }

type toolKey struct {
	module, qualname, tool string
	line, ordinal          int
}

// boot is a record that was taken in.
type boot struct {
	record bootRecord
	// ready is what of the record a copy needs; it tells two processes of one
	// program apart, since the program's files may have changed between them.
	ready json.RawMessage
	ahead []foreseen
	heard time.Time
	size  int // bytes in memory, about
}

var (
	idFormat   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	flagFormat = regexp.MustCompile(`^(-O{1,2}|-X(utf8|dev)(=[A-Za-z0-9]{1,16})?)$`)
	// containerFormat is a label of DNS, as Kubernetes names containers.
	containerFormat = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	nameFormat      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.()\-]{0,255}$`)
)

// ours begins the names of variables for the hook, a token among them; they
// never cross.
const ours = "CODE_SANDBOX_"

// hardened are variables that change what an interpreter is; they never cross.
var hardened = map[string]bool{
	"HOME": true, "TMPDIR": true, "PYTHONPATH": true, "PYTHONSTARTUP": true, "PYTHONINSPECT": true, "PYTHONBREAKPOINT": true,
	"LD_PRELOAD": true, "LD_AUDIT": true, "BASH_ENV": true, "ENV": true,
}

// readBoot checks a boot record.
func readBoot(body []byte) (*boot, error) {
	var r bootRecord
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	if len(r.Tools) > maxTools {
		r.Tools = slices.Clone(r.Tools[:maxTools]) // the others would stay in memory behind them
	}
	if len(r.Frameworks) > maxFrames {
		r.Frameworks = slices.Clone(r.Frameworks[:maxFrames])
	}
	for i := range r.Tools {
		r.Tools[i].Audited = min(max(r.Tools[i].Audited, 0), maxAudited)
	}
	ready, err := json.Marshal(map[string]any{
		"boot_id": r.ID, "env": r.Env, "cwd": r.Cwd, "argv0": r.Argv0, "sys_path": append([]string{}, r.SysPath...), "main": r.Main,
	})
	if err != nil {
		return nil, err
	}
	b := &boot{ahead: r.foreseen(), record: r, ready: ready, heard: time.Now()}
	if b.size = r.size() + len(ready); len(ready) > maxReady || b.size > maxKept {
		return nil, tooLarge("the boot record has %d bytes in memory, %d of them for copies; the limits are %d and %d", b.size, len(ready), maxKept, maxReady)
	}
	return b, nil
}

func (r *bootRecord) validate() error {
	if !idFormat.MatchString(r.ID) {
		return errors.New("boot_id must have 1 to 64 letters and digits")
	}
	if err := plainPath("python.executable", r.Python.Executable); err != nil {
		return err
	}
	if r.Container != "" && !containerFormat.MatchString(r.Container) {
		return fmt.Errorf("container is %q, which is no name of a container", clip(r.Container))
	}
	for _, flag := range r.Python.Flags {
		if len(r.Python.Flags) > 8 || !flagFormat.MatchString(flag) {
			return fmt.Errorf("python.flags has %q: only -O, -X utf8 and -X dev are taken over", clip(flag))
		}
	}
	if len(r.SysPath) > maxPaths {
		return fmt.Errorf("sys_path has %d entries; the limit is %d", len(r.SysPath), maxPaths)
	}
	return r.validateEnv()
}

func (r *bootRecord) validateEnv() error {
	if len(r.Env.Values) > maxEnv || len(r.Env.Names) > maxEnv {
		return fmt.Errorf("the environment has more than %d variables", maxEnv)
	}
	size := 0
	for name, value := range r.Env.Values {
		if hardened[name] || strings.HasPrefix(name, ours) || !nameFormat.MatchString(name) {
			delete(r.Env.Values, name)
			continue
		}
		if size += len(name) + len(value) + 2; strings.ContainsRune(value, 0) {
			return fmt.Errorf("the variable %s holds a zero byte", clip(name))
		}
	}
	if size > maxEnvSize {
		return fmt.Errorf("the variables that may cross have %d bytes; the limit is %d", size, maxEnvSize)
	}
	return nil
}

func plainPath(what, p string) error {
	if !filepath.IsAbs(p) || len(p) > maxPath || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%s must be an absolute path of at most %d bytes, not %q", what, maxPath, clip(p))
	}
	return nil
}

// copy is how a copy for one function of the process is made.
func (b *boot) copy(target json.RawMessage) *wire.Copy {
	r := &b.record
	c := &wire.Copy{
		Container: r.Container, Python: r.Python.Executable, Flags: append([]string{}, r.Python.Flags...), Env: r.Env.Values,
		Boot: b.ready, Target: target, Prefixes: paths(r.Python.Prefix, r.Python.BasePrefix),
	}
	c.Program = paths(append([]string{filepath.Dir(r.Main.Path), r.Cwd}, r.SysPath...)...)
	if r.Main.Path != "" {
		c.Program = append(c.Program, paths(r.Main.Path)...)
	}
	return c
}

// paths keeps those that can be shown, each once.
func paths(all ...string) []string {
	kept, seen := []string{}, map[string]bool{}
	for _, p := range all {
		if plainPath("", p) != nil || seen[filepath.Clean(p)] {
			continue
		}
		seen[filepath.Clean(p)] = true
		kept = append(kept, filepath.Clean(p))
	}
	return kept
}

// decode reads one JSON object, bounded in depth.
func decode(body []byte, to any) error {
	if wire.Depth(body) > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("it is not as PROTOCOL.md has it: %w", err)
	}
	return nil
}

func clip(s string) string {
	if len(s) <= 100 {
		return s
	}
	return strings.ToValidUTF8(s[:100], "") + "…"
}
