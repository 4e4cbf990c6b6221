package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

// contractOf is the openapi.yaml that a service gives out.
func contractOf(t *testing.T, url string) validator.Validator {
	t.Helper()
	res, err := http.Get(url + "/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := libopenapi.NewDocument(b)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return v
}

// What the whole service answers about its limits and on the paths of tool
// calls is as its own openapi.yaml has it.
func TestContractOfTheWholeService(t *testing.T) {
	token := rand.Text()
	s := serveWith(t, []string{"CODE_SANDBOX_TOKEN=" + token}, "--target", "1", "--max", "7")
	contract := contractOf(t, s.url)
	f := func(method, path, body string, status int, want string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != status || !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s %s: %d %s, want %d with %s", method, path, res.StatusCode, b, status, want)
		}
		res.Body = io.NopCloser(bytes.NewReader(b))
		if ok, errs := contract.ValidateHttpResponse(req, res); !ok {
			t.Errorf("%s %s: %s is not as in openapi.yaml: %v", method, path, b, errs)
		}
	}
	// Every limit, of the pool and of tool calls too.
	f("GET", "/limits", "", 200, `"answer_files":200,"dns_lookups":1000,"warm":1,"sandboxes":7},"tools":{"mode":"enforce","calls_in_flight":256`)
	// Before an agent has said anything.
	f("GET", "/v1/tools", "", 200, `"tools":[]`)
	f("POST", "/v1/tools/call", `{"id":"1","boot_id":"nobody","tool":"add","target":{}}`, 404, `"not_found"`)
	f("POST", "/v1/tools/hello", `{}`, 400, `"bad_request"`)
	// A process with one tool, and a call of it.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "app.py"), []byte("def add(a, b):\n    return a + b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	boot := fmt.Sprintf(`{"boot_id":"b1","pid":1,"python":{"executable":%q,"prefix":"/usr","base_prefix":"/usr","flags":[]},
		"main":{"kind":"none","path":"","name":""},"cwd":%q,"argv0":"","sys_path":[%q],"env":{"values":{},"names":{}},"frameworks":[],
		"tools":[{"tool":"add","framework":"raw","module":"app","qualname":"add","line":1,"ordinal":0,"decision":"sandboxed","reason":"","message":""}]}`,
		testPython, dir, dir)
	f("POST", "/v1/tools/hello", boot, 200, `"mode":"enforce"`)
	f("GET", "/v1/tools", "", 200, `"boot_id":"b1"`)
	f("POST", "/v1/tools/call", `{"id":"1","boot_id":"b1","tool":"add","framework":"raw","target":{"module":"app","qualname":"add","line":1,"ordinal":0,
		"code":"","bindings":[],"partial":false,"instance":null},"args":[1,2],"kwargs":{},"stream":false}`, 200, `"sandbox_id"`)
	// Another user of the machine has no token, or guesses.
	for _, token = range []string{"", "guessed-by-another-user"} {
		f("POST", "/v1/tools/hello", boot, 401, `"unauthenticated"`)
		f("GET", "/v1/tools", "", 401, `"unauthenticated"`)
		f("POST", "/v1/tools/call", `{"id":"1","boot_id":"b1","tool":"add","target":{}}`, 401, `"executed":"no"`)
	}
}

// A service that was given no token takes no tool calls, and says how it would.
func TestToolCallsNeedAToken(t *testing.T) {
	s := serve(t)
	f := func(method, path, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer ")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusForbidden || !bytes.Contains(b, []byte(`"executed":"no"`)) || !bytes.Contains(b, []byte("CODE_SANDBOX_TOKEN")) {
			t.Errorf("%s %s: %d %s, %v", method, path, res.StatusCode, b, err)
		}
	}
	f("GET", "/v1/tools", "")
	f("POST", "/v1/tools/hello", `{"boot_id":"b1","python":{"executable":"/usr/bin/python3"}}`)
	f("POST", "/v1/tools/call", `{"id":"1","boot_id":"b1","tool":"add","target":{}}`)
}
