// Command sidecar is the API on localhost beside an agent on a cluster: it
// hands each run to the pool.
package main

import (
	"context"
	"os"

	"github.com/code-sandbox/code-sandbox/cmd/program"
)

func main() {
	os.Exit(program.Status("sidecar", command(program.UntilSignal(), os.Args[1:])))
}

func command(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	return run(ctx, o)
}
