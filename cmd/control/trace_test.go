package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Spans leave for the collector that the standard variables name, the last
// ones when the program ends; without them nothing is traced.
func TestTracer(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	none, flush, err := newTracer(t.Context())
	if err != nil || none != nil {
		t.Fatalf("without a collector: %v, %v", none, err)
	}
	flush()

	heard := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		heard <- r.URL.Path + " " + string(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	tracer, flush, err := newTracer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Start(t.Context(), "run-of-the-test")
	span.End()
	flush()
	select {
	case got := <-heard:
		if !strings.HasPrefix(got, "/v1/traces ") || !strings.Contains(got, "run-of-the-test") {
			t.Errorf("the collector heard %q", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("the collector heard nothing")
	}
}
