package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const healthBound = 2 * time.Second

// health asks a runner without the secret: one that lives refuses.
func health(args []string) error {
	addr := fmt.Sprintf("127.0.0.1:%d", wire.RunnerPort)
	if len(args) > 0 {
		addr = args[0]
	}
	client := &http.Client{Timeout: healthBound, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // nothing is said or believed
	}}
	res, err := client.Post("https://"+addr+protocol.FreshPath, "application/json", nil)
	if err != nil {
		return fmt.Errorf("cannot reach a runner at %q: %w", addr, err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		return fmt.Errorf("what answers at %q is not a runner: it answered %d", addr, res.StatusCode)
	}
	return nil
}
