//go:build tools

// Package gvisor names the two commands of gVisor that are built here, so
// that the module file keeps what they need.
package gvisor

import (
	_ "gvisor.dev/gvisor/runsc"
	_ "gvisor.dev/gvisor/shim"
)
