package sidecar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// contract is openapi.yaml, ready to hold answers against.
type contract struct {
	model   *v3.Document
	answers validator.Validator
	schemas schema_validation.SchemaValidator
}

var theContract = sync.OnceValues(func() (*contract, error) {
	doc, err := libopenapi.NewDocument(openAPI)
	if err != nil {
		return nil, err
	}
	model, err := doc.BuildV3Model()
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(doc, config.WithFormatAssertions())
	if len(errs) > 0 {
		return nil, errs[0]
	}
	if ok, errs := v.ValidateDocument(); !ok {
		return nil, said(errs)
	}
	return &contract{&model.Model, v, schema_validation.NewSchemaValidator()}, nil
})

func said(errs []*errors.ValidationError) error {
	var b strings.Builder
	for _, e := range errs {
		fmt.Fprintf(&b, "%s: %s", e.Message, e.Reason)
		for _, s := range e.SchemaValidationErrors {
			fmt.Fprintf(&b, "; %s at %s", s.Reason, s.FieldPath)
		}
	}
	return fmt.Errorf("not as in openapi.yaml: %s", b.String())
}

// apiServers are the addresses whose answers are held against the contract.
var apiServers sync.Map

// keeps says how an answer differs from the contract. Paths and methods that
// the contract does not have are the server's to refuse; their errors are held
// against the schema of errors.
func keeps(req *http.Request, res *http.Response, body []byte) error {
	if _, ok := apiServers.Load(req.URL.Host); !ok {
		return nil
	}
	c, err := theContract()
	if err != nil {
		return err
	}
	item, ok := c.model.Paths.PathItems.Get(req.URL.Path)
	if !ok || item.GetOperations().GetOrZero(strings.ToLower(req.Method)) == nil {
		if res.StatusCode != 404 && res.StatusCode != 405 && res.StatusCode != 403 && res.StatusCode != 500 {
			return fmt.Errorf("%s %s is served but not in openapi.yaml", req.Method, req.URL.Path)
		}
		return c.matches("Failure", body)
	}
	if kind := events(res.Header.Get("Content-Type")); kind == sse || kind == ndjson {
		return c.tells(body)
	}
	copied := *res
	copied.Body = io.NopCloser(bytes.NewReader(body))
	if ok, errs := c.answers.ValidateHttpResponse(req, &copied); !ok {
		return fmt.Errorf("%w\n%s", said(errs), body)
	}
	return nil
}

// tells holds each event of a stream against the contract.
func (c *contract) tells(body []byte) error {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimPrefix(line, []byte("data: ")); line[0] == '{' {
			if err := c.matches("Event", line); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *contract) matches(schema string, payload []byte) error {
	proxy, ok := c.model.Components.Schemas.Get(schema)
	if !ok {
		return fmt.Errorf("there is no schema %s", schema)
	}
	if ok, errs := c.schemas.ValidateSchemaBytesWithVersion(proxy.Schema(), payload, 3.1); !ok {
		return fmt.Errorf("%w\n%s", said(errs), payload)
	}
	return nil
}

func mustContract(t testing.TB) *contract {
	t.Helper()
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every example of a request is served, and its answer is as described (try
// sees to that); every example of an answer is valid.
func TestExamplesOfTheContract(t *testing.T) {
	c := mustContract(t)
	s := start(t, echo)
	replayed := 0
	for path, item := range c.model.Paths.PathItems.FromOldest() {
		if strings.HasPrefix(path, "/v1/tools") { // mounted; cmd/code-sandbox tests them with the whole service
			continue
		}
		for method, op := range item.GetOperations().FromOldest() {
			if op.RequestBody == nil {
				if r := do(t, strings.ToUpper(method), s.url+path, nil); r.status != 200 {
					t.Errorf("%s: %d %s", path, r.status, r.body)
				}
				continue
			}
			for kind, media := range op.RequestBody.Content.FromOldest() {
				for name, example := range media.Examples.FromOldest() {
					var value any
					if err := example.Value.Decode(&value); err != nil {
						t.Fatal(err)
					}
					body, ok := value.(string)
					if kind == "application/json" || !ok {
						b, _ := json.Marshal(value)
						body = string(b)
						if kind == "application/json" && path != "/mcp" {
							if err := c.matches("Request", b); err != nil {
								t.Errorf("%s %s: %v", path, name, err)
							}
						}
					}
					accept := "application/json"
					if path == "/mcp" {
						accept += ", text/event-stream"
					}
					if r := do(t, "POST", s.url+path, strings.NewReader(body), "Content-Type", kind, "Accept", accept); r.status != 200 {
						t.Errorf("%s %s: %d %s", path, name, r.status, r.body)
					}
					replayed++
				}
			}
		}
	}
	if replayed != 9 {
		t.Errorf("%d examples were replayed, want 4 twice and 1", replayed)
	}
	for name, res := range c.model.Components.Responses.FromOldest() {
		for kind, media := range res.Content.FromOldest() {
			schema := map[bool]string{true: "Result", false: "Failure"}[name == "Ran"]
			for which, example := range media.Examples.FromOldest() {
				var value any
				if err := example.Value.Decode(&value); err != nil {
					t.Fatal(err)
				}
				b, _ := json.Marshal(value)
				if err := c.matches(schema, b); err != nil {
					t.Errorf("%s %s %s: %v", name, kind, which, err)
				}
			}
		}
	}
}

// The contract names what the code has: every path, code, outcome and denial,
// and each code's status.
func TestContractIsCurrent(t *testing.T) {
	c := mustContract(t)
	s := start(t, echo)
	for path, r := range s.routes {
		item, ok := c.model.Paths.PathItems.Get(path)
		if !ok || item.GetOperations().GetOrZero(strings.ToLower(r.method)) == nil {
			t.Errorf("%s %s is not in openapi.yaml", r.method, path)
		}
	}
	enum := func(schema, field string) (all []string) {
		t.Helper()
		proxy, ok := c.model.Components.Schemas.Get(schema)
		if !ok {
			t.Fatal(schema)
		}
		sch := proxy.Schema()
		if field != "" {
			sch = sch.Properties.GetOrZero(field).Schema()
		}
		for _, n := range sch.Enum {
			all = append(all, n.Value)
		}
		slices.Sort(all)
		return all
	}
	f := func(what string, got, want []string) {
		t.Helper()
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: openapi.yaml has %q, the code %q", what, got, want)
		}
	}
	var codes, outcomes, denials []string
	responses := c.model.Paths.PathItems.GetOrZero("/run_python").Post.Responses.Codes
	for code, status := range api.Codes() {
		codes = append(codes, string(code))
		if responses.GetOrZero(fmt.Sprint(status)) == nil {
			t.Errorf("the status %d of %s is not in openapi.yaml", status, code)
		}
	}
	for _, o := range wire.Outcomes {
		outcomes = append(outcomes, string(o))
	}
	for _, d := range wire.Denials {
		denials = append(denials, string(d))
	}
	f("codes", enum("Error", "code"), codes)
	f("outcomes", enum("Outcome", ""), outcomes)
	f("denials", enum("Denial", ""), denials)
	var names []string
	for name := range c.model.Components.Schemas.GetOrZero("Request").Schema().Properties.KeysFromOldest() {
		names = append(names, name)
	}
	slices.Sort(names)
	f("fields of a request", names, slices.Clone(request.Fields))
	if r := do(t, "GET", s.url+"/openapi.yaml", nil); r.body != string(openAPI) || r.header.Get("Content-Type") != "application/yaml" {
		t.Error(r.header)
	}
}

// The check itself fails when it should.
func TestContractIsStrict(t *testing.T) {
	c := mustContract(t)
	b, _ := json.Marshal(lists(&wire.Result{Outcome: wire.OK}))
	f := func(schema, payload string) {
		t.Helper()
		if c.matches(schema, []byte(payload)) == nil {
			t.Errorf("%s is a %s", payload, schema)
		}
	}
	if err := c.matches("Result", b); err != nil {
		t.Error(err)
	}
	// A field too many, one too few, null for a list, another outcome.
	f("Result", strings.Replace(string(b), "{", `{"more":1,`, 1))
	f("Result", strings.Replace(string(b), `"exit_code":0,`, "", 1))
	f("Result", strings.Replace(string(b), `"files":[]`, `"files":null`, 1))
	f("Result", strings.Replace(string(b), `"ok"`, `"fine"`, 1))
	f("Event", strings.Replace(string(b), "{", `{"event":"end","more":1,`, 1))
	f("Failure", `{"error":{"code":"odd","message":"","retryable":false,"executed":"no"}}`)
}
