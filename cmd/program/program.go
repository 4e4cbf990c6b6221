// Package program is how the commands end: by a signal, and with an exit code.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
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
func Status(name string, err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	if errors.Is(err, flags.ErrUsage) {
		return 2
	}
	return 1
}
