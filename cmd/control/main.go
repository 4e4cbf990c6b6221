// Command control is the control plane of Code Sandbox on Kubernetes: the pool
// of sandboxes, and the injector that gives agents their sidecars.
package main

import (
	"fmt"
	"os"

	"github.com/code-sandbox/code-sandbox/cmd/internal/cli"
)

const usage = `control is the control plane of Code Sandbox on Kubernetes.

  control pool [flags]      keep sandboxes ready, and run what sidecars send
  control injector [flags]  give agent pods their sidecar
  control hook FOLDER       lay the tool-call hook out in a folder
  control version           print the version

"control COMMAND -h" lists the flags of a command. Each flag can be set by an
environment variable too: --admin-listen by CODE_SANDBOX_ADMIN_LISTEN.
`

func main() {
	os.Exit(cli.Status("control", command(os.Args[1:])))
}

func command(args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("%w: name a command", cli.ErrUsage)
	}
	switch args[0] {
	case "pool":
		o, err := parsePool(args[1:])
		if err != nil {
			return err
		}
		return runPool(cli.UntilSignal(), o)
	case "injector":
		o, err := parseInjector(args[1:])
		if err != nil {
			return err
		}
		return runInjector(cli.UntilSignal(), o)
	case "hook":
		return layHook(args[1:])
	case "version":
		fmt.Println("control", cli.Version())
		return nil
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("%w: there is no command %q; see control help", cli.ErrUsage, args[0])
}
