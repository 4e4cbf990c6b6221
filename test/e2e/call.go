//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Answer is what POST /run_python says, as far as tests look at it; Failure is
// nil when the program ran.
type Answer struct {
	Status     int    `json:"-"`
	RetryAfter string `json:"-"`

	SandboxID string  `json:"sandbox_id"`
	Stdout    string  `json:"stdout"`
	Stderr    string  `json:"stderr"`
	Result    *string `json:"result"`
	ExitCode  int     `json:"exit_code"`
	Outcome   string  `json:"outcome"`
	Reason    string  `json:"reason"`
	Warm      bool    `json:"warm"`
	Isolation string  `json:"isolation"`

	Failure *Failure `json:"error"`
}

// Failure is an error of ours.
type Failure struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	Executed  string `json:"executed"`
}

// Call sends a program to a sidecar. An error means that there was no answer
// of the API's shape at all.
func Call(ctx context.Context, url string, request map[string]any) (Answer, error) {
	var a Answer
	body, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/run_python", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	post.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(post)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return a, err
	}
	a.Status, a.RetryAfter = answer.StatusCode, answer.Header.Get("Retry-After")
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, fmt.Errorf("%s: %.200q: %w", answer.Status, raw, err)
	}
	if (a.Status == http.StatusOK) != (a.Failure == nil) {
		return a, fmt.Errorf("%s with the body %.200q", answer.Status, raw)
	}
	return a, nil
}

// Run sends a program and fails the test unless it ran.
func (s *Space) Run(url, code string) Answer {
	s.T.Helper()
	a, err := Call(s.T.Context(), url, map[string]any{"code": code, "timeout_seconds": 20})
	if err != nil {
		s.T.Fatalf("no answer: %v", err)
	}
	if a.Failure != nil {
		s.T.Fatalf("%d %s: %s", a.Status, a.Failure.Code, a.Failure.Message)
	}
	return a
}
