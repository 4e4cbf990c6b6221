package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/code-sandbox/code-sandbox/pool/runner/server"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// serve starts this program again without an environment; that one, which is
// given a descriptor, serves.
func serve(args []string) error {
	if len(args) == 0 {
		config, err := server.ParseConfig([]byte(os.Getenv(wire.RunnerEnv)))
		if err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		return server.Shed(config, "serve")
	}
	runtime.UnlockOSThread() // this is the last program: any thread may serve
	if err := server.Harden(); err != nil {
		return err
	}
	config, err := server.TakeConfig(args[0])
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := server.New(config)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
