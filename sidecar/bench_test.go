package sidecar

import (
	"bufio"
	"io"
	"net/http"
	"testing"
)

// BenchmarkRunPython is what the sidecar adds to a run: one keep-alive
// connection over loopback, with a Runner that does nothing. It includes the
// client, which is as lean as can be.
func BenchmarkRunPython(b *testing.B) {
	s := start(b, echo)
	c := dial(b, s)
	br := bufio.NewReader(c)
	send := []byte(raw(`{"code":"print(sum(range(10)))","timeout_seconds":5,"args":["a"],"env":{"A":"b"}}`))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(send); err != nil {
			b.Fatal(err)
		}
		res, err := http.ReadResponse(br, nil)
		if err != nil || res.StatusCode != 200 {
			b.Fatal(err, res)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			b.Fatal(err)
		}
	}
}
