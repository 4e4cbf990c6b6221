// Command sidecar is the API on localhost beside an agent on a cluster: it
// hands each run to the pool.
package main

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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// After the first signal the default is back: a second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(status(command(ctx, os.Args[1:])))
}

func command(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	return run(ctx, o)
}

// status says what went wrong, and is the exit code for it.
func status(err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(os.Stderr, "sidecar: %v\n", err)
	if errors.Is(err, flags.ErrUsage) {
		return 2
	}
	return 1
}
