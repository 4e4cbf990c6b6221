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

// UntilSignals is UntilSignal for who has runs in flight to end: the second
// signal, which closes hurry, ends them without patience but in order; the third
// ends the process.
func UntilSignals() (ctx context.Context, hurry <-chan struct{}) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	second := make(chan struct{})
	go func() { // ends with the process, if no signals come
		<-signals
		cancel()
		<-signals
		signal.Stop(signals)
		close(second)
	}()
	return ctx, second
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
