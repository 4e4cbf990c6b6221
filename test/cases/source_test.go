package cases

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

// R4: odd sources run, or fail as programs; only what is no text is refused.
func TestR04OddSources(t *testing.T) {
	f := func(code, stdout string, exit int, stderr string) {
		t.Helper()
		a := shared.run(t, code)
		if a.Stdout != stdout || a.ExitCode != exit || !strings.Contains(a.Stderr, stderr) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", code, a.ExitCode, a.Stdout, a.Stderr)
		}
	}
	// Nothing.
	f("", "", 0, "")
	// Only a comment.
	f("# nothing", "", 0, "")
	// A byte order mark first.
	f("\ufeffprint(1)", "1\n", 0, "")
	// Lines as Windows ends them.
	f("if True:\r\n    print(1)\r\n    print('''a\r\nb''')\r\n", "1\na\nb\n", 0, "")
	// NUL.
	f("print(1)\x00", "", 1, "SyntaxError")
	// No Python.
	f("let x = 1;", "", 1, "SyntaxError")
	// A declared encoding that is not what was sent.
	f("# -*- coding: latin-1 -*-\nprint(1)", "1\n", 0, "")
	// No line end, a tab, a form feed.
	f("if 1:\n\tprint(1)\n\f", "1\n", 0, "")
}

// R4: a lone surrogate escape, and bodies that hold no program.
func TestR04BodiesThatAreNoText(t *testing.T) {
	f := func(body string, status int, code string) {
		t.Helper()
		a := shared.post(t, []byte(body), nil)
		if a.status != status {
			t.Errorf("%q: status %d, %+v", body, a.status, a.Error)
		}
		if code != "" && (a.Error == nil || a.Error.Code != code || a.Error.Executed != "no" || a.Error.Message == "") {
			t.Errorf("%q: error %+v", body, a.Error)
		}
	}
	// A surrogate without its other half: no UTF-8 can hold it.
	f(`{"code": "print('\ud800')"}`, http.StatusBadRequest, "bad_request")
	// A whole pair is a character.
	f(`{"code": "print('\ud83d\ude00')"}`, http.StatusOK, "")
	// Bytes that are not UTF-8.
	f("{\"code\": \"print('\xff')\"}", http.StatusBadRequest, "bad_request")
	// Not a string.
	f(`{"code": 1}`, http.StatusBadRequest, "bad_request")
	f(`{"code": null}`, http.StatusBadRequest, "bad_request")
	f(`{}`, http.StatusBadRequest, "bad_request")
	f(`{"code": "print(1)"`, http.StatusBadRequest, "bad_request")
	f(``, http.StatusBadRequest, "bad_request")
}

// R5: long sources run up to the limit; past it the answer names limit and size.
func TestR05LongSources(t *testing.T) {
	f := func(size, status int) {
		t.Helper()
		const program = "print('done')\n"
		line := "x = 1  # " + strings.Repeat("y", 70) + "\n"
		code := strings.Repeat(line, (size-len(program))/len(line)) + program
		code = strings.Repeat("\n", size-len(code)) + code
		body, err := json.Marshal(request{Code: code})
		if err != nil {
			t.Fatal(err)
		}
		a := shared.post(t, body, nil)
		if a.status != status {
			t.Fatalf("%d bytes: status %d, %+v", size, a.status, a.Error)
		}
		if status == http.StatusOK {
			if a.Stdout != "done\n" || a.Outcome != "ok" {
				t.Errorf("%d bytes: %+v", size, a)
			}
			return
		}
		if a.Error == nil || a.Error.Code != "too_large" || a.Error.Executed != "no" ||
			!strings.Contains(a.Error.Message, itoa(1<<20)) || !strings.Contains(a.Error.Message, itoa(size)) {
			t.Errorf("%d bytes: %+v", size, a.Error)
		}
	}
	f(200<<10, http.StatusOK)
	f(1<<20, http.StatusOK)
	f(1<<20+1, http.StatusRequestEntityTooLarge)
	f(5_000_000, http.StatusRequestEntityTooLarge)
}

// R5: a body over every limit is answered too, and the service goes on.
func TestR05ABodyOverEveryLimit(t *testing.T) {
	a := shared.post(t, []byte(`{"code": "`+strings.Repeat("x", 40<<20)+`"}`), nil)
	if a.status != http.StatusRequestEntityTooLarge || a.Error == nil || a.Error.Code != "too_large" {
		t.Errorf("status %d, %+v", a.status, a.Error)
	}
	shared.works(t)
}
