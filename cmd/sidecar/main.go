// Command sidecar is the API on localhost beside an agent on a cluster: it
// hands each run to the pool.
package main

import (
	"context"
	"os"

	"github.com/code-sandbox/code-sandbox/cmd/program"
)

func main() {
	ctx, hurry := program.UntilSignals()
	os.Exit(program.Status("sidecar", command(ctx, hurry, os.Args[1:])))
}

func command(ctx context.Context, hurry <-chan struct{}, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	o.hurry = hurry
	return run(ctx, o)
}
