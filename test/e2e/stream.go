//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Stream sends a program to a sidecar and tells each line of its standard
// output as it comes; the answer is that of Call.
func Stream(ctx context.Context, url string, request map[string]any, heard func(line string)) (Answer, error) {
	var a Answer
	body, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/run_python", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/x-ndjson")
	answer, err := http.DefaultClient.Do(post)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	a.Status = answer.StatusCode
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct {
			Event string `json:"event"`
			Text  string `json:"text"`
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return a, fmt.Errorf("%s: %.200q: %w", answer.Status, lines.Text(), err)
		}
		switch event.Event {
		case "stdout":
			heard(event.Text)
		case "end", "error", "": // the last is an error that no event came before
			return a, json.Unmarshal(lines.Bytes(), &a)
		}
	}
	return a, errors.Join(errors.New("the answer ended in the middle"), lines.Err())
}
