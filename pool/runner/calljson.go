package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// frameDepth bounds the nesting of a frame: typed values of depth 64 take up to
// three levels of JSON each.
const frameDepth = 256

var (
	errNotJSON = errors.New("it is not JSON")
	errNonce   = errors.New("it does not carry the nonce of the request")
)

// lastFields are the fields of a result frame that go on; others are dropped.
var lastFields = []string{"ok", "value", "error", "state_changed"}

// callFrame is one frame of a copy, checked.
type callFrame struct {
	kind  string
	item  json.RawMessage
	last  json.RawMessage // of a result
	ok    bool            // likewise
	error json.RawMessage // of a failure
}

// parseFrame checks the bytes of a frame: valid JSON of bounded depth, one
// object, the nonce of our request.
func parseFrame(body []byte, nonce string) (*callFrame, error) {
	if wire.Depth(body) > frameDepth {
		return nil, fmt.Errorf("it is nested deeper than %d levels", frameDepth)
	}
	if !json.Valid(body) {
		return nil, errNotJSON
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, errors.New("it is not a JSON object")
	}
	var head struct{ kind, nonce string }
	for name, to := range map[string]*string{"kind": &head.kind, "nonce": &head.nonce} {
		if err := json.Unmarshal(fields[name], to); err != nil {
			return nil, fmt.Errorf("its %s is not a string", name)
		}
	}
	if nonce == "" || head.nonce != nonce {
		return nil, errNonce
	}
	f := &callFrame{kind: head.kind, item: fields["item"], error: fields["error"]}
	switch f.kind {
	case "item":
		if f.item == nil {
			return nil, errors.New("it is an item without a value")
		}
	case "result":
		f.last, f.ok = keep(fields), string(fields["ok"]) == "true"
	case "ready", "failed":
	default:
		return nil, fmt.Errorf("its kind is %q", clip(f.kind, 40))
	}
	return f, nil
}

// keep is the known fields of a result, as one object.
func keep(fields map[string]json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, name := range lastFields {
		value, ok := fields[name]
		if !ok {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", name, value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// withNonce adds the nonce to a request's JSON object.
func withNonce(request json.RawMessage, nonce string) (json.RawMessage, error) {
	body := bytes.TrimSpace(request)
	if len(body) < 2 || body[0] != '{' || !json.Valid(body) {
		return nil, errors.New("the request of a copy is not a JSON object")
	}
	head := fmt.Sprintf(`{"nonce":%q`, nonce)
	if rest := bytes.TrimSpace(body[1:]); rest[0] != '}' {
		head += ","
	}
	return append([]byte(head), body[1:]...), nil
}
