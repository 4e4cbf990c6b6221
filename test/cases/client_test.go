package cases

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// request is the body of POST /run_python.
type request struct {
	Code    string            `json:"code"`
	Timeout float64           `json:"timeout_seconds,omitempty"`
	Stdin   *string           `json:"stdin,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Files   []file            `json:"files,omitempty"`
}

type file struct {
	Path      string `json:"path"`
	Size      int64  `json:"size,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Content   string `json:"content"`
	Encoding  string `json:"encoding,omitempty"`
}

func (f file) bytes(t *testing.T) []byte {
	t.Helper()
	if f.Encoding != "base64" {
		return []byte(f.Content)
	}
	b, err := base64.StdEncoding.DecodeString(f.Content)
	if err != nil {
		t.Fatalf("the content of %q: %v", f.Path, err)
	}
	return b
}

// answer is what came back: a result, or an error.
type answer struct {
	RunID     string `json:"run_id"`
	SandboxID string `json:"sandbox_id"`

	Stdout          string `json:"stdout"`
	Stderr          string `json:"stderr"`
	StdoutBytes     int64  `json:"stdout_bytes"`
	StderrBytes     int64  `json:"stderr_bytes"`
	StdoutTruncated bool   `json:"stdout_truncated"`
	StderrTruncated bool   `json:"stderr_truncated"`

	Result   *string  `json:"result"`
	ExitCode int      `json:"exit_code"`
	Outcome  string   `json:"outcome"`
	Reason   string   `json:"reason"`
	Denied   []string `json:"denied"`

	Files        []file `json:"files"`
	FilesOmitted []struct {
		Path   string `json:"path"`
		Size   int64  `json:"size"`
		Reason string `json:"reason"`
	} `json:"files_omitted"`
	DurationMS float64 `json:"duration_ms"`

	Error *struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Retryable bool   `json:"retryable"`
		Executed  string `json:"executed"`
	} `json:"error"`

	status int
	took   time.Duration // as the caller sees it
}

func (a *answer) file(path string) *file {
	for i := range a.Files {
		if a.Files[i].Path == path {
			return &a.Files[i]
		}
	}
	return nil
}

func (a *answer) omitted(path string) string {
	for _, o := range a.FilesOmitted {
		if o.Path == path {
			return o.Reason
		}
	}
	return ""
}

// run runs code and wants an answer about it.
func (s *service) run(t *testing.T, code string) *answer {
	t.Helper()
	return s.ask(t, request{Code: code})
}

// ask sends a request and wants an answer about the program, not an error.
func (s *service) ask(t *testing.T, req request) *answer {
	t.Helper()
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	a := s.post(t, body, nil)
	if a.status != http.StatusOK || a.Error != nil {
		t.Fatalf("%.200q: status %d, error %+v", req.Code, a.status, a.Error)
	}
	return a
}

// post sends a body as it is and takes whatever JSON comes back.
func (s *service) post(t *testing.T, body []byte, header http.Header) *answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/run_python", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, values := range header {
		req.Header[name] = values
	}
	begun := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("the answer is cut short: %v", err)
	}
	a := &answer{status: res.StatusCode, took: time.Since(begun)}
	if !utf8.Valid(raw) || json.Unmarshal(raw, a) != nil {
		t.Fatalf("status %d, and not JSON of UTF-8: %.300q", res.StatusCode, raw)
	}
	return a
}

// works is the next call: it must answer as if nothing had happened.
func (s *service) works(t *testing.T) {
	t.Helper()
	if a := s.run(t, "print(6 * 7)"); a.Stdout != "42\n" || a.Outcome != "ok" {
		t.Errorf("the next call: %+v", a)
	}
}

// get reads a page of the service.
func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, res.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
