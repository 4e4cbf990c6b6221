// Package request reads the body of a run_python request: every byte of it is
// foreign, and every refusal says what to change.
package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// MinTimeout is the shortest timeout: a shorter one would round to "default".
const MinTimeout = 0.001

// Fields are the names a request may have, for the message on another one.
var Fields = []string{"code", "timeout_seconds", "timeout", "stdin", "args", "env", "files"}

// ParseJSON makes a request of a JSON body, or says what to change.
func ParseJSON(body []byte, l Limits) (*wire.Request, *api.Error) {
	body = bytes.TrimPrefix(body, []byte("\uFEFF"))
	if len(body) == 0 {
		return nil, api.Errorf(api.BadRequest, `the body is empty: send JSON like {"code": "print(1)"}`)
	}
	if !json.Valid(body) {
		var into json.RawMessage
		return nil, api.Errorf(api.BadRequest, "the body is not JSON: %w", json.Unmarshal(body, &into))
	}
	p := parser{limits: l, req: &wire.Request{TimeoutSeconds: float64(l.DefaultTimeout)}}
	if err := members(body, "the body", p.field); err != nil {
		return nil, asBadRequest(err)
	}
	if !p.hasCode {
		return nil, api.Errorf(api.BadRequest, `"code" is missing: give the program's source as a string`)
	}
	return p.req, nil
}

// ParseSource makes a request of a body that is the program itself.
func ParseSource(body []byte, l Limits) (*wire.Request, *api.Error) {
	if at := invalidUTF8(body); at >= 0 {
		return nil, api.Errorf(api.BadRequest, "the source must be UTF-8: byte %d is 0x%02x, which is not", at, body[at])
	}
	p := parser{limits: l, req: &wire.Request{TimeoutSeconds: float64(l.DefaultTimeout)}}
	if err := p.code(string(body)); err != nil {
		return nil, asBadRequest(err)
	}
	return p.req, nil
}

// asBadRequest keeps an error that has a code and makes the others bad_request.
func asBadRequest(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	return api.Errorf(api.BadRequest, "%w", err)
}

type parser struct {
	limits  Limits
	req     *wire.Request
	hasCode bool
	timeout string // the field that gave the timeout
}

// field reads one member of the body. null stands for a field left out,
// except for code.
func (p *parser) field(name string, raw []byte) error {
	if string(raw) == "null" && name != "code" && Known(name) {
		return nil
	}
	switch name {
	case "code":
		code, err := text(raw, "code")
		if err != nil {
			return err
		}
		return p.code(code)
	case "timeout_seconds", "timeout":
		return p.seconds(name, raw)
	case "stdin":
		stdin, err := text(raw, "stdin")
		p.req.Stdin = &stdin
		return err
	case "args":
		return p.args(raw)
	case "env":
		return p.env(raw)
	case "files":
		return p.files(raw)
	}
	return unknown(name, "the body", Fields)
}

func (p *parser) code(code string) error {
	if len(code) > p.limits.CodeBytes {
		return api.Errorf(api.TooLarge, "code has %d bytes, over the limit of %d: send data in files instead", len(code), p.limits.CodeBytes)
	}
	p.req.Code, p.hasCode = code, true
	return nil
}

func (p *parser) seconds(name string, raw []byte) error {
	if p.timeout != "" {
		return fmt.Errorf("give timeout_seconds or timeout, not both: they are one setting")
	}
	p.timeout = name
	if kind(raw) != "a number" {
		return fmt.Errorf("%s must be a number of seconds like 30, not %s", name, kind(raw))
	}
	var seconds float64
	err := json.Unmarshal(raw, &seconds)
	switch {
	case err != nil: // it is valid JSON, and a number
		return fmt.Errorf("%s must be a number of seconds like 30, and %s is beyond all that can be told: %v is the limit", name, Clip(string(raw)), p.limits.MaxTimeout)
	case seconds < MinTimeout:
		return fmt.Errorf("%s is %v and must be at least %v", name, seconds, MinTimeout)
	case seconds > float64(p.limits.MaxTimeout):
		return fmt.Errorf("%s is %v, over the limit of %v: ask for less, or have the limit raised", name, seconds, p.limits.MaxTimeout)
	}
	p.req.TimeoutSeconds = seconds
	return nil
}

func (p *parser) args(raw []byte) error {
	return elements(raw, "args", func(i int, value []byte) error {
		if i >= p.limits.Args {
			return fmt.Errorf("args has more than %d entries, which is the limit", p.limits.Args)
		}
		what := fmt.Sprintf("args[%d]", i)
		arg, err := text(value, what)
		if err != nil {
			return err
		}
		p.req.Args = append(p.req.Args, arg)
		return noNUL(arg, what)
	})
}

func (p *parser) env(raw []byte) error {
	return members(raw, "env", func(name string, value []byte) error {
		if len(p.req.Env) >= p.limits.Env {
			return fmt.Errorf("env has more than %d entries, which is the limit", p.limits.Env)
		}
		if err := checkEnvName(name); err != nil {
			return err
		}
		what := fmt.Sprintf("env[%q]", name)
		v, err := text(value, what)
		if err != nil {
			return err
		}
		if p.req.Env == nil {
			p.req.Env = make(map[string]string)
		}
		p.req.Env[name] = v
		return noNUL(v, what)
	})
}

// checkEnvName refuses what is no name, and names that would change what runs
// before the snippet.
func checkEnvName(name string) error {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return fmt.Errorf("env has the name %q: a name has letters, digits and underscores, and does not start with a digit", name)
		}
	}
	switch {
	case name == "":
		return fmt.Errorf("env has an empty name: a name has letters, digits and underscores")
	case strings.HasPrefix(name, "LD_"), strings.HasPrefix(name, "PYTHON"):
		return fmt.Errorf("env may not set %q: names that start with LD_ or PYTHON change the interpreter before the program starts", name)
	}
	return nil
}

func noNUL(s, what string) error {
	if strings.ContainsRune(s, 0) {
		return fmt.Errorf("%s holds a NUL character, which cannot be passed to a program", what)
	}
	return nil
}

// invalidUTF8 is where b stops being UTF-8, or -1.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
}
