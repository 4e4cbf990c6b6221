// Command control is the control plane of Code Sandbox on Kubernetes: the pool
// of sandboxes, and the injector that gives agents their sidecars.
package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/cmd/program"
	"github.com/code-sandbox/code-sandbox/cmd/version"
)

const usage = `control is the control plane of Code Sandbox on Kubernetes.

  control pool [flags]      keep sandboxes ready, and run what sidecars send
  control injector [flags]  give agent pods their sidecar
  control leave [flags]     end the pool, before it is uninstalled
  control doctor [flags]    try from inside of sandboxes what they must not be able to do
  control hook FOLDER       lay the tool-call hook out in a folder
  control version           print the version

"control COMMAND -h" lists the flags of a command. Each flag can be set by an
environment variable too: --admin-listen by CODE_SANDBOX_ADMIN_LISTEN.
`

func main() {
	os.Exit(program.Status("control", command(os.Args[1:])))
}

// newLogger writes lines of JSON to stderr, as clusters collect them.
func newLogger(level string) (hclog.Logger, error) {
	l := hclog.LevelFromString(level)
	if l == hclog.NoLevel {
		return nil, fmt.Errorf("%w: --log-level is %q; it can be debug, info, warn or error", flags.ErrUsage, level)
	}
	return hclog.New(&hclog.LoggerOptions{Name: "code-sandbox", Level: l, Output: os.Stderr, JSONFormat: true}), nil
}

func command(args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("%w: name a command", flags.ErrUsage)
	}
	switch args[0] {
	case "pool":
		o, err := parsePool(args[1:])
		if err != nil {
			return err
		}
		return runPool(program.UntilSignal(), o)
	case "injector":
		o, err := parseInjector(args[1:])
		if err != nil {
			return err
		}
		return runInjector(program.UntilSignal(), o)
	case "leave":
		o, err := parseLeave(args[1:])
		if err != nil {
			return err
		}
		return runLeave(program.UntilSignal(), o)
	case "doctor":
		o, err := parseDoctor(args[1:])
		if err != nil {
			return err
		}
		return runDoctor(program.UntilSignal(), o, os.Stdout)
	case "hook":
		return layHook(args[1:], runnerPath)
	case "version", "--version":
		fmt.Println("control", version.Of())
		return nil
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("%w: there is no command %q; see control help", flags.ErrUsage, args[0])
}
