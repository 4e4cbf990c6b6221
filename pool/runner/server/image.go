package server

import (
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Bounds on what is noted of an image's environment: as JSON, where a byte may
// take six, all of it fits a configuration.
const (
	maxImageNames  = 16 << 10 // bytes of names without a value
	maxImageValue  = 4 << 10
	maxImageValues = 6 << 10
)

// crossing are the variables of an image whose values a copy may have: those that
// the hook's own list (env.py) has as well.
var crossing = []string{
	"PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONIOENCODING",
	"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONWARNINGS", "LD_LIBRARY_PATH", "NODE_ENV",
	"OMP_*", "MKL_*", "OPENBLAS_NUM_THREADS", "NUMEXPR_*", "LOG_LEVEL", "LOGLEVEL", "ENVIRONMENT", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
}

// notOfImage are variables that are the container's own, or ours, or that change
// what an interpreter is: a copy has its own, or none.
var notOfImage = []string{
	"CODE_SANDBOX_*", "KUBERNETES_*", "HOME", "HOSTNAME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "PYTHONPATH", "PYTHONSTARTUP",
	"PYTHONINSPECT", "PYTHONBREAKPOINT", "LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV",
}

// variable is what names of variables are made of, as far as anybody uses them.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,255}$`)

// quotes is what a name in a list takes beside itself.
const quotes = 3

func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// noteImage says what an image's environment has, less its secrets.
func noteImage(environ []string) *wire.ImageEnv {
	noted := &wire.ImageEnv{Values: map[string]string{}}
	size, names := 0, 0
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !variable.MatchString(name) || matches(name, notOfImage) {
			continue
		}
		fits := len(value) <= maxImageValue && size+len(name)+len(value) <= maxImageValues
		switch {
		case matches(name, crossing) && fits && !secretLike(name, value):
			noted.Values[name] = value
			size += len(name) + len(value)
		case names+len(name)+quotes <= maxImageNames:
			noted.Names = append(noted.Names, name)
			names += len(name) + quotes
		}
	}
	return noted
}

// withImage adds to a program's environment what its image has and the agent did
// not tell of: values that may cross, and the names of the others, which the copy
// then has with dead values.
func withImage(c *wire.Copy, image *wire.ImageEnv) (*wire.Copy, error) {
	if image == nil {
		return c, nil
	}
	var boot map[string]json.RawMessage
	var env struct {
		Values map[string]json.RawMessage `json:"values"`
		Names  map[string]json.RawMessage `json:"names"`
	}
	if err := json.Unmarshal(c.Boot, &boot); err != nil {
		return nil, err
	}
	if raw, ok := boot["env"]; ok {
		if err := json.Unmarshal(raw, &env); err != nil {
			return nil, err
		}
	}
	if env.Names == nil {
		env.Names = map[string]json.RawMessage{}
	}
	told := func(name string) bool {
		_, value := env.Values[name]
		_, withheld := env.Names[name]
		_, given := c.Env[name]
		return value || withheld || given
	}
	added := map[string]string{}
	for name, value := range image.Values {
		if !told(name) {
			added[name] = value
		}
	}
	for _, name := range image.Names {
		if !told(name) {
			env.Names[name] = json.RawMessage(`{"shape":"opaque"}`)
		}
	}
	maps.Copy(added, c.Env)
	raw, err := json.Marshal(env)
	if err == nil {
		if boot == nil {
			boot = map[string]json.RawMessage{}
		}
		boot["env"] = raw
		raw, err = json.Marshal(boot)
	}
	if err != nil {
		return nil, err
	}
	return &wire.Copy{Python: c.Python, Flags: c.Flags, Prefixes: c.Prefixes, Program: c.Program, Env: added, Boot: raw, Target: c.Target, Egress: c.Egress}, nil
}
