//go:build e2e

package runs

import (
	"fmt"
	"os"
	"testing"
)

// uninstall is set by who installs.
var uninstall func() error

func TestMain(m *testing.M) {
	code := m.Run()
	if uninstall != nil {
		if err := uninstall(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot uninstall:", err)
			code = 1
		}
	}
	os.Exit(code)
}
