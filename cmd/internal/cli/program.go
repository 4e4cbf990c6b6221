package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

// UntilSignal is a context that ends with the first signal to stop.
func UntilSignal() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// After the first signal the default is back: a second one ends the process.
	context.AfterFunc(ctx, stop)
	return ctx
}

// Status says on stderr what went wrong, and is the exit code for it: 2 for a
// program that was called wrongly, 1 for one that failed.
func Status(program string, err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
	if errors.Is(err, ErrUsage) {
		return 2
	}
	return 1
}

// NewLogger writes lines of JSON to stderr, as clusters collect them.
func NewLogger(name, level string) (hclog.Logger, error) {
	l := hclog.LevelFromString(level)
	if l == hclog.NoLevel {
		return nil, fmt.Errorf("%w: --log-level is %q; it can be debug, info, warn or error", ErrUsage, level)
	}
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: l, Output: os.Stderr, JSONFormat: true}), nil
}

// release is set by the linker in released builds.
var release string

// Version is the release, or the commit this program was built from.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "0.1.0-dev+" + s.Value[:12]
		}
	}
	return "0.1.0-dev"
}
